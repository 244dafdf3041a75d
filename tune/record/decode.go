package record

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/epbench/epbench/tune/ep"
)

// maxShared bounds the problems and configs a decoder keeps, so that a hostile
// log cannot grow it without end.
const maxShared = 1 << 16

// decoder reads one line at a time. encoding/json would do at a quarter of the
// speed: logs run to hundreds of megabytes, nearly all of it numbers in
// `seconds` and the same few problems and configs, so numbers are parsed in
// place and equal objects decoded once.
type decoder struct {
	problems map[string]ep.Problem
	configs  map[string]ep.Config
	flat     []float64 // the unused end of the block that rows are cut from
	buf      []byte
	pos      int
}

var errJSON = errors.New("not one JSON object")

// decode parses one object without its newline.
func (d *decoder) decode(line []byte, r *Result) error {
	*r = Result{}
	d.buf, d.pos = line, 0
	if !d.eat('{') {
		return errJSON
	}
	var seen uint64
	for first := true; !d.eat('}'); first = false {
		if !first && !d.eat(',') {
			return errJSON
		}
		name, err := d.name()
		if err != nil {
			return err
		}
		bit, err := d.field(name, r)
		if err != nil {
			return fmt.Errorf("field %.40q: %w", name, err)
		}
		if seen&bit != 0 {
			return fmt.Errorf("field %.40q is given twice", name)
		}
		seen |= bit
	}
	if d.space(); d.pos != len(d.buf) {
		return errJSON
	}
	return r.check()
}

// field parses the value of one field and returns the field's own bit. The
// common fields have a case; what is short goes through encoding/json.
func (d *decoder) field(name []byte, r *Result) (bit uint64, err error) {
	switch string(name) {
	case "seconds":
		r.Seconds, err = d.rounds()
		return 1, err
	case "problem":
		r.Problem, err = shared(&d.problems, d.raw(), func(p ep.Problem) error { return p.Validate() })
		return 2, err
	case "config":
		r.Config, err = shared(&d.configs, d.raw(), checkConfig)
		return 4, err
	}
	for i, f := range shortFields {
		if f.name == string(name) {
			raw := d.raw()
			if raw == nil {
				return 0, errJSON
			}
			return 8 << i, f.parse(raw, r)
		}
	}
	return 0, errors.New("unknown")
}

// shared decodes raw through a cache.
func shared[T any](cache *map[string]T, raw []byte, check func(T) error) (T, error) {
	if v, ok := (*cache)[string(raw)]; ok {
		return v, nil
	}
	var v T
	if raw == nil {
		return v, errJSON
	}
	if err := unmarshalStrict(words1(raw), &v); err != nil {
		return v, err
	}
	if err := check(v); err != nil {
		return v, err
	}
	if *cache == nil {
		*cache = map[string]T{}
	}
	if len(*cache) < maxShared {
		(*cache)[string(raw)] = v
	}
	return v, nil
}

func checkConfig(c ep.Config) error {
	_, err := ep.ParseConfig(c.Key())
	return err
}

// rounds parses [[number, ...], ...] with rows of one length.
func (d *decoder) rounds() ([][]float64, error) {
	if !d.eat('[') {
		return nil, errors.New("not a list of rounds")
	}
	var out [][]float64
	for !d.eat(']') {
		if len(out) > 0 && !d.eat(',') {
			return nil, errJSON
		}
		row, err := d.row()
		if err != nil {
			return nil, err
		}
		if len(out) > 0 && len(row) != len(out[0]) {
			return nil, fmt.Errorf("round %d has %d ranks, round 0 has %d", len(out), len(row), len(out[0]))
		}
		out = append(out, row)
	}
	return out, nil
}

func (d *decoder) row() ([]float64, error) {
	if !d.eat('[') {
		return nil, errors.New("a round is not a list of seconds")
	}
	if cap(d.flat) < ep.MaxRanks {
		d.flat = make([]float64, 0, 16*ep.MaxRanks)
	}
	row := d.flat[:0]
	for !d.eat(']') {
		if len(row) > 0 && !d.eat(',') {
			return nil, errJSON
		}
		if len(row) == ep.MaxRanks {
			return nil, fmt.Errorf("a round has more than %d ranks", ep.MaxRanks)
		}
		v, err := d.number()
		if err != nil {
			return nil, err
		}
		row = append(row, v)
	}
	d.flat = d.flat[len(row):len(row)]
	return row[:len(row):len(row)], nil
}

// number parses a JSON number that is a duration: finite, not negative.
func (d *decoder) number() (float64, error) {
	d.space()
	start := d.pos
	if v, ok := d.shortNumber(); ok {
		return v, nil
	}
	for d.pos = start; d.pos < len(d.buf) && numeric[d.buf[d.pos]]; d.pos++ {
	}
	text := d.buf[start:d.pos]
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || text[0] < '0' || text[0] > '9' || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%.20q is no duration in seconds", text)
	}
	return v, nil
}

var numeric = func() (t [256]bool) {
	for _, c := range "0123456789+-.eE" {
		t[c] = true
	}
	return t
}()

// shortNumber parses a number of at most 15 digits with a small exponent,
// where one multiplication or division is exact (Clinger 1990). It is what
// measurements look like and three times as fast as strconv.
func (d *decoder) shortNumber() (v float64, ok bool) {
	var mantissa, digits, exp int
	b, i, point := d.buf, d.pos, -1
	for ; i < len(b); i++ {
		if c := b[i] - '0'; c <= 9 {
			mantissa = mantissa*10 + int(c)
			if digits++; digits > 15 {
				return 0, false
			}
		} else if b[i] == '.' && point < 0 && digits > 0 {
			point = digits
		} else {
			break
		}
	}
	if digits == 0 || i+4 >= len(b) { // room for e-NN and a delimiter
		return 0, false
	}
	if point >= 0 {
		exp = point - digits
	}
	if b[i] == 'e' {
		tens, ones := b[i+2]-'0', b[i+3]-'0'
		if b[i+1] != '-' || tens > 9 || ones > 9 {
			return 0, false
		}
		exp -= int(tens)*10 + int(ones)
		i += 4
	}
	if exp < -22 || numeric[b[i]] {
		return 0, false
	}
	d.pos = i
	return float64(mantissa) / powers[-exp], true
}

// powers are the powers of ten that a float64 holds exactly.
var powers = [23]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// name parses a field name and its colon. Names of ours need no escapes.
func (d *decoder) name() ([]byte, error) {
	if !d.eat('"') {
		return nil, errJSON
	}
	end := bytes.IndexByte(d.buf[d.pos:], '"')
	if end < 0 {
		return nil, errJSON
	}
	name := d.buf[d.pos : d.pos+end]
	if d.pos += end + 1; !d.eat(':') {
		return nil, errJSON
	}
	return name, nil
}

// raw returns the extent of one JSON value by its brackets and quotes, nil if
// it has no end; whoever parses the extent checks its grammar.
func (d *decoder) raw() []byte {
	d.space()
	start, depth := d.pos, 0
	for ; d.pos < len(d.buf); d.pos++ {
		switch d.buf[d.pos] {
		case '"':
			if d.skipString(); d.pos >= len(d.buf) {
				return nil
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return d.buf[start:d.pos]
			}
			depth--
		case ',':
			if depth == 0 {
				return d.buf[start:d.pos]
			}
		}
	}
	return nil
}

// skipString moves to the closing quote of the string that starts at pos.
func (d *decoder) skipString() {
	for d.pos++; d.pos < len(d.buf) && d.buf[d.pos] != '"'; d.pos++ {
		if d.buf[d.pos] == '\\' {
			d.pos++
		}
	}
}

func (d *decoder) eat(c byte) bool {
	if d.space(); d.pos < len(d.buf) && d.buf[d.pos] == c {
		d.pos++
		return true
	}
	return false
}

func (d *decoder) space() {
	for d.pos < len(d.buf) && (d.buf[d.pos] == ' ' || d.buf[d.pos] == '\t' || d.buf[d.pos] == '\r') {
		d.pos++
	}
}

// check refuses what no writer of ours produces.
func (r *Result) check() error {
	switch {
	case r.Schema != Schema:
		return fmt.Errorf("schema: %d, this version reads %d", r.Schema, Schema)
	case r.Problem.Op == "":
		return errors.New(`field "problem" is missing`)
	case !knownStatus[r.Status]:
		return fmt.Errorf("status: unknown %.20q", r.Status)
	case !knownRole[r.Role]:
		return fmt.Errorf("role: unknown %.20q", r.Role)
	case r.Seq < 0 || r.Block < 0 || r.Round0 < 0 || r.Fold < 0 || r.Checked < 0 || r.MaxErr < 0 || r.Wall < 0:
		return errors.New("seq, block, round0, fold, checked, max_err and wall: below 0")
	case len(r.Seconds) > 0 && r.Status != ep.OK:
		return fmt.Errorf("seconds: a %s trial has none", r.Status)
	}
	return nil
}

var knownStatus = map[ep.Status]bool{
	ep.OK: true, ep.Illegal: true, ep.NoBuild: true, ep.NoLaunch: true,
	ep.Mismatch: true, ep.Hang: true, ep.Crash: true, ep.Unstable: true,
}

var knownRole = map[Role]bool{
	Candidate: true, Default: true, Incumbent: true, Analytic: true, Twin: true, Peer: true,
}
