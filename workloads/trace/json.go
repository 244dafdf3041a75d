package trace

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"

	"github.com/epbench/epbench/tune/bounded"
)

// maxJSON allows 100 layers of 512 experts over 100 steps, which take 40 MB.
const maxJSON = 64 << 20

// openJSON reads counts: nested arrays, or an object such as {"logical_count": [[...], ...]}.
func openJSON(path string, o Options) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cost, err := bounded.ForFile(f)
	if err != nil {
		return nil, err
	}
	text, err := cost.ReadAll("JSON", f, maxJSON)
	if err != nil {
		return nil, fmt.Errorf("%w; convert the counts to a .npy file, which may be larger", err)
	}
	all, err := jsonArrays(bytes.TrimSpace(text))
	if err != nil {
		return nil, err
	}
	return fromArchive(all, o)
}

func jsonArrays(text []byte) (all []*array, err error) {
	if len(text) == 0 || text[0] != '[' && text[0] != '{' {
		return nil, errLevels
	}
	if !json.Valid(text) {
		return nil, fmt.Errorf("not valid JSON: %.80s", json.Unmarshal(text, new(json.RawMessage)))
	}
	s := scanner{text: text}
	if text[0] == '[' {
		a, err := jsonArray(&s)
		return []*array{a}, err
	}
	for s.at++; s.peek() != '}'; {
		name := s.name()
		switch {
		case s.peek() != '[' || !slices.Contains(countNames, name) && !slices.Contains(idNames, name) && !slices.Contains(mapNames, name):
			s.skip()
		case named(all, name) != nil:
			return nil, fmt.Errorf("%q is given twice", name)
		default:
			a, err := jsonArray(&s)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", name, err)
			}
			a.name = name
			all = append(all, a)
		}
		if s.peek() == ',' {
			s.at++
		}
	}
	return all, nil
}

// jsonArray reads the shape of one to three levels of arrays. The numbers stay text, because slices
// would take 9 times the memory.
func jsonArray(s *scanner) (*array, error) {
	s.peek()
	start, l := s.at, levels{}
	if err := s.walk(&l, 0); err != nil {
		return nil, err
	}
	text := s.text[start:s.at]
	return &array{
		elem: elem{kind: 'i', size: 8}, shape: l.sizes,
		open: func() (io.ReadCloser, error) { return io.NopCloser(&numbers{in: scanner{text: text}}), nil },
	}, nil
}

var errLevels = errors.New("write counts in arrays of one to three levels, or an object with these arrays in its field logical_count")

type scanner struct {
	text []byte
	at   int
}

// peek skips white space and returns the next byte without taking it.
func (s *scanner) peek() byte {
	for s.text[s.at] <= ' ' {
		s.at++
	}
	return s.text[s.at]
}

func (s *scanner) name() (name string) {
	s.peek()
	start := s.at
	s.skip()
	if s.at-start < 64 {
		_ = json.Unmarshal(s.text[start:s.at], &name)
	}
	s.peek()
	s.at++
	return name
}

func (s *scanner) skip() {
	for depth := 0; ; {
		switch s.peek() {
		case '[', '{':
			depth++
			s.at++
		case ']', '}':
			depth--
			s.at++
		case ',', ':':
			s.at++
		case '"':
			for s.at++; s.text[s.at] != '"'; s.at++ {
				if s.text[s.at] == '\\' {
					s.at++
				}
			}
			s.at++
		default:
			for s.at < len(s.text) && bytes.IndexByte([]byte(" \t\r\n,]}"), s.text[s.at]) < 0 {
				s.at++
			}
		}
		if depth == 0 {
			return
		}
	}
}

type levels struct {
	sizes   []int
	numbers int // depth of the numbers, 0 if unknown
}

func (s *scanner) walk(l *levels, depth int) error {
	if depth == 3 {
		return errLevels
	}
	first := len(l.sizes) == depth
	if first {
		l.sizes = append(l.sizes, 0)
	}
	n := 0
	for s.at++; s.peek() != ']'; n++ {
		if n > 0 {
			s.at++
		}
		if err := s.element(l, depth); err != nil {
			return err
		}
	}
	s.at++
	if first {
		l.sizes[depth] = n
	}
	if l.sizes[depth] != n {
		return fmt.Errorf("arrays of %d and of %d elements side by side", l.sizes[depth], n)
	}
	return nil
}

func (s *scanner) element(l *levels, depth int) error {
	if s.peek() == '[' {
		if l.numbers == depth+1 {
			return errors.New("numbers and arrays side by side")
		}
		return s.walk(l, depth+1)
	}
	_, err := s.number()
	if err == nil && l.numbers != depth+1 && (l.numbers != 0 || len(l.sizes) > depth+1) {
		err = errors.New("numbers and arrays side by side")
	}
	l.numbers = depth + 1
	return err
}

func (s *scanner) number() (int64, error) {
	end := s.at
	for c := s.text[end]; c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'; c = s.text[end] {
		end++
	}
	word := s.text[s.at:end]
	s.at = end
	if len(word) == 0 {
		if s.text[end] == 'n' {
			return 0, errors.New("null in the place of a number")
		}
		return 0, fmt.Errorf("%.20q in the place of a number", s.text[end:])
	}
	if v, err := strconv.ParseInt(string(word), 10, 64); err == nil && v <= 1<<53 && v >= -1<<53 {
		return v, nil
	}
	v, err := strconv.ParseFloat(string(word), 64)
	if err != nil || v != math.Trunc(v) || math.Abs(v) > 1<<53 {
		return 0, fmt.Errorf("%.40s is not a whole number", word)
	}
	return int64(v), nil
}

// numbers reads the elements of an array as little-endian int64.
type numbers struct {
	in   scanner
	rest []byte
	word [8]byte
}

func (r *numbers) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(r.rest) == 0 {
			for r.in.at < len(r.in.text) && bytes.IndexByte([]byte("[], \t\r\n"), r.in.text[r.in.at]) >= 0 {
				r.in.at++
			}
			if r.in.at == len(r.in.text) {
				return n, io.EOF
			}
			v, err := r.in.number()
			if err != nil {
				return n, err
			}
			binary.LittleEndian.PutUint64(r.word[:], uint64(v))
			r.rest = r.word[:]
		}
		m := copy(p[n:], r.rest)
		n, r.rest = n+m, r.rest[m:]
	}
	return n, nil
}
