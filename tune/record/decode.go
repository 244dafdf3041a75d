package record

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/epbench/epbench/tune/ep"
)

var strict = json.RejectUnknownMembers(true)

// maxShared bounds the problems and configs that a decoder keeps, so that a hostile log cannot fill the memory.
const maxShared = 1 << 16

type decoder struct {
	problems map[string]ep.Problem
	configs  map[string]ep.Config
	flat     []float64
	options  json.Options
}

func newDecoder() *decoder {
	d := &decoder{problems: map[string]ep.Problem{}, configs: map[string]ep.Config{}}
	problem := json.UnmarshalFromFunc(func(dec *jsontext.Decoder, p *ep.Problem) error {
		return shared(dec, d.problems, p, ep.Problem.Validate)
	})
	config := json.UnmarshalFromFunc(func(dec *jsontext.Decoder, c *ep.Config) error {
		return shared(dec, d.configs, c, checkConfig)
	})
	seconds := json.UnmarshalFromFunc(func(dec *jsontext.Decoder, out *[][]float64) error {
		raw, err := dec.ReadValue()
		if err == nil {
			*out, err = d.rounds(raw)
		}
		return err
	})
	d.options = json.JoinOptions(strict, json.WithUnmarshalers(json.JoinUnmarshalers(problem, config, seconds)))
	return d
}

func (d *decoder) decode(line []byte, r *Result) error {
	*r = Result{}
	if bytes.HasPrefix(line, []byte(`{"schema":1,`)) {
		return fmt.Errorf(oldSchema, 1, Schema)
	}
	line, seconds := d.cutSeconds(line)
	var p ep.Problem
	var c ep.Config
	line, problem := cut(line, `,"problem":`, "}", d.problems, &p)
	line, config := cut(line, `,"config":`, "}}", d.configs, &c)
	if err := plain(json.Unmarshal(line, r, d.options)); err != nil {
		return err
	}
	if problem && r.Problem.Op != "" || config && r.Config.Kernel != "" {
		return errors.New(`field "/problem" or "/config" is given twice`)
	}
	if problem {
		r.Problem = p
	}
	if config {
		r.Config = c
	}
	if seconds != nil {
		if r.Seconds != nil {
			return errors.New(`field "/seconds" is given twice`)
		}
		r.Seconds = seconds
	}
	return r.check()
}

// lastSeconds marks where a line's last field begins. No string in a line contains this text, because quotes inside
// strings are escaped.
var lastSeconds = []byte(`,"seconds":[[`)

// cutSeconds parses the seconds at the end of a line, and returns the line without them.
func (d *decoder) cutSeconds(line []byte) (rest []byte, seconds [][]float64) {
	at := bytes.Index(line, lastSeconds)
	if at < 0 || line[len(line)-1] != '}' {
		return line, nil
	}
	seconds, err := d.rounds(line[at+len(lastSeconds)-2 : len(line)-1])
	if err != nil {
		return line, nil
	}
	line[at] = '}' // only the reader uses this buffer, so it may be overwritten
	return line[:at+1], seconds
}

// cut removes a field from a line and stores the field's value in *out. The map `known` holds values that were decoded
// before, by their JSON text. If `known` lacks the text of the field's value, cut returns the whole line.
func cut[T any](line []byte, name, end string, known map[string]T, out *T) (rest []byte, found bool) {
	at := bytes.Index(line, []byte(name))
	if at < 0 {
		return line, false
	}
	from := at + len(name)
	n := bytes.Index(line[from:], []byte(end))
	if n < 0 {
		return line, false
	}
	to := from + n + len(end)
	if *out, found = known[string(line[from:to])]; !found {
		return line, false
	}
	return append(line[:at], line[to:]...), true // only the reader uses this buffer, so it may be overwritten
}

func shared[T any](dec *jsontext.Decoder, cache map[string]T, out *T, check func(T) error) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if v, ok := cache[string(raw)]; ok {
		*out = v
		return nil
	}
	if err := json.Unmarshal(raw, out, strict); err != nil {
		return err
	}
	if err := check(*out); err != nil {
		return err
	}
	if len(cache) < maxShared {
		cache[string(raw)] = *out
	}
	return nil
}

func checkConfig(c ep.Config) error {
	_, err := ep.ParseConfig(c.Key())
	return err
}

// plain rewords an error of the JSON library, so that the text names no Go type.
func plain(err error) error {
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.As(err, &semantic):
		field := string(semantic.JSONPointer)
		if errors.Is(err, json.ErrUnknownName) {
			return fmt.Errorf("field %.40q: unknown", field)
		}
		if semantic.Err != nil {
			return fmt.Errorf("field %.40q: %w", field, plain(semantic.Err))
		}
		return fmt.Errorf("field %.40q: a %v does not fit", field, semantic.JSONKind)
	case errors.As(err, &syntactic):
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return fmt.Errorf("field %.40q is given twice", string(syntactic.JSONPointer))
		}
		return fmt.Errorf("not one JSON object: %w", syntactic.Err)
	}
	return err
}

// rounds parses [[number, ...], ...].
func (d *decoder) rounds(raw []byte) ([][]float64, error) {
	s := scanner{raw, 0}
	var out [][]float64
	for more := s.eat('['); more; more = s.eat(',') {
		row, err := d.row(&s)
		if err != nil {
			return nil, err
		}
		if len(out) > 0 && len(row) != len(out[0]) {
			return nil, fmt.Errorf("round %d has %d ranks, round 0 has %d", len(out), len(row), len(out[0]))
		}
		out = append(out, row)
	}
	if !s.eat(']') || s.pos != len(raw) {
		return nil, errors.New("not a list of rounds")
	}
	return out, nil
}

func (d *decoder) row(s *scanner) ([]float64, error) {
	if cap(d.flat) < ep.MaxRanks {
		d.flat = make([]float64, 0, 16*ep.MaxRanks)
	}
	row := d.flat[:0]
	for more := s.eat('['); more; more = s.eat(',') {
		if len(row) == ep.MaxRanks {
			return nil, fmt.Errorf("a round has more than %d ranks", ep.MaxRanks)
		}
		v, err := s.number()
		if err != nil {
			return nil, err
		}
		row = append(row, v)
	}
	if !s.eat(']') {
		return nil, errors.New("a round is not a list of seconds")
	}
	d.flat = d.flat[len(row):len(row)]
	return row[:len(row):len(row)], nil
}

type scanner struct {
	buf []byte
	pos int
}

func (s *scanner) space() {
	for s.pos < len(s.buf) && s.buf[s.pos] <= ' ' {
		s.pos++
	}
}

func (s *scanner) eat(c byte) bool {
	s.space()
	if s.pos < len(s.buf) && s.buf[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

// number parses a duration, which is finite and not negative. For a short decimal number, it divides the digits by a
// power of ten. A float64 holds both without rounding. So the quotient is the float64 nearest to the decimal number
// (Clinger 1990).
func (s *scanner) number() (float64, error) {
	s.space()
	start, mantissa, digits, point, exp := s.pos, 0, 0, -1, 0
	i := s.pos
	for ; i < len(s.buf); i++ {
		if c := s.buf[i] - '0'; c <= 9 {
			mantissa = mantissa*10 + int(c)
			digits++
		} else if s.buf[i] == '.' && point < 0 {
			point = digits
		} else {
			break
		}
	}
	if point >= 0 {
		exp = digits - point
	}
	if i+3 < len(s.buf) && s.buf[i] == 'e' && s.buf[i+1] == '-' {
		if tens, ones := s.buf[i+2]-'0', s.buf[i+3]-'0'; tens <= 9 && ones <= 9 {
			exp += int(tens)*10 + int(ones)
			i += 4
		}
	}
	if digits > 0 && digits <= 15 && point != 0 && exp < len(powers) && i < len(s.buf) && (s.buf[i] == ',' || s.buf[i] == ']') {
		s.pos = i
		return float64(mantissa) / powers[exp], nil
	}
	end := bytes.IndexAny(s.buf[start:], ",] \t\r\n")
	if end < 0 {
		end = len(s.buf) - start
	}
	s.pos += end
	text := string(s.buf[start:s.pos])
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || text[0] < '0' || text[0] > '9' || strings.ContainsAny(text, "xX") || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%.20q is not a duration in seconds", text)
	}
	return v, nil
}

var powers = [23]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

const (
	maxStages   = 64
	maxWarnings = 2 * ep.MaxRanks
)

func (r *Result) check() error {
	switch {
	case r.Schema != Schema:
		return fmt.Errorf("schema: %d, this version reads %d; use the epbench that wrote it", r.Schema, Schema)
	case r.Problem.Op == "":
		return errors.New(`field "problem" is missing`)
	case !slices.Contains(ep.Statuses(), r.Status):
		return fmt.Errorf("status: unknown %.20q", r.Status)
	case !slices.Contains(roles, r.Role):
		return fmt.Errorf("role: unknown %.20q", r.Role)
	case r.Seq < 0 || r.Block < 0 || r.Round0 < 0 || r.Fold < 0 || r.Checked < 0 || r.MaxErr < 0 || r.Wall < 0:
		return errors.New("seq, block, round0, fold, checked, max_err or wall: below 0")
	case len(r.MHz) > ep.MaxRanks || len(r.LayerStages) > maxStages || len(r.Warnings) > maxWarnings:
		return fmt.Errorf("more than %d entries in mhz, %d in layer_stages or %d in warnings", ep.MaxRanks, maxStages, maxWarnings)
	case r.Beside != nil && len(r.Seconds) == 0:
		return errors.New("beside: a trial without seconds must not have this field")
	case r.Beside != nil:
		return r.Beside.Validate(len(r.Seconds), len(r.Seconds[0]))
	case len(r.Seconds) > 0 && r.Status != ep.OK:
		return fmt.Errorf("seconds: a trial with status %s must not have this field", r.Status)
	}
	return nil
}

var roles = []Role{Candidate, Default, Incumbent, Analytic, Twin, Peer}
