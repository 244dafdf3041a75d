package ep

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Value is the value of a parameter: a decimal integer or a lower-case word.
type Value string

// Int returns the value as a number. ok is false for words, and for numbers such as 07.
func (v Value) Int() (n int, ok bool) {
	digits := strings.TrimPrefix(string(v), "-")
	if digits == "" || digits[0] < '0' || digits[0] > '9' || digits[0] == '0' && len(v) > 1 {
		return 0, false // for text, this is faster than Atoi, which makes an error value
	}
	n, err := strconv.Atoi(string(v))
	if err != nil {
		return 0, false
	}
	return n, true
}

// Compare orders numbers by size, words by their bytes, and numbers before words.
func (v Value) Compare(w Value) int {
	x, number := v.Int()
	y, other := w.Int()
	switch {
	case number && other:
		return cmp.Compare(x, y)
	case number:
		return -1
	case other:
		return 1
	}
	return cmp.Compare(v, w)
}

// MarshalJSON writes integers as numbers and words as strings.
func (v Value) MarshalJSON() ([]byte, error) {
	if _, ok := v.Int(); ok {
		return []byte(v), nil
	}
	return json.Marshal(string(v))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (v *Value) UnmarshalJSON(b []byte) error {
	s := string(b)
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
	} else if _, ok := Value(s).Int(); !ok {
		return fmt.Errorf("value: %.20q is neither an integer nor a word", s)
	}
	if !validWord(s) {
		return fmt.Errorf("value: %.20q, use lower-case letters, digits, '_', '.', '+' and '-'", s)
	}
	*v = Value(s)
	return nil
}

// Config says how to launch a call: a kernel, and a value for each of its parameters. The zero Config means the
// default config, which a caller without a tuned table launches.
type Config struct {
	Kernel string           `json:"kernel"`
	Values map[string]Value `json:"values"`
}

// IsDefault reports whether c is the zero Config.
func (c Config) IsDefault() bool { return c.Kernel == "" }

// Int returns the value of a parameter as a number. It returns 0 for a word and for an unknown parameter.
func (c Config) Int(name string) int {
	n, _ := c.Values[name].Int()
	return n
}

// Str returns the value of a parameter, or "" for an unknown parameter.
func (c Config) Str(name string) string { return string(c.Values[name]) }

// With returns a copy of c in which one parameter has the value v.
func (c Config) With(name string, v Value) Config {
	values := maps.Clone(c.Values)
	if values == nil {
		values = map[string]Value{}
	}
	values[name] = v
	return Config{Kernel: c.Kernel, Values: values}
}

// Names lists c's parameters in alphabetical order.
func (c Config) Names() []string { return slices.Sorted(maps.Keys(c.Values)) }

// Key returns the full spelling of c: kernel:name=value,name=value, with names in alphabetical order. Key returns
// "default" for the zero Config.
func (c Config) Key() string {
	if c.IsDefault() {
		return "default"
	}
	pairs := make([]string, 0, len(c.Values))
	for _, n := range c.Names() {
		pairs = append(pairs, n+"="+string(c.Values[n]))
	}
	return c.Kernel + ":" + strings.Join(pairs, ",")
}

// ParseConfig reads the spelling that Key writes. Names may be in any order.
func ParseConfig(s string) (Config, error) {
	if s == "default" {
		return Config{}, nil
	}
	kernel, rest, ok := strings.Cut(s, ":")
	if !ok || !validWord(kernel) {
		return Config{}, fmt.Errorf("config: %.60q is not kernel:name=value,name=value", s)
	}
	c := Config{Kernel: kernel, Values: map[string]Value{}}
	if rest == "" {
		return c, nil
	}
	for pair := range strings.SplitSeq(rest, ",") {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || !validWord(name) || !validWord(value) {
			return Config{}, fmt.Errorf("config: %.60q is not name=value", pair)
		}
		if _, dup := c.Values[name]; dup {
			return Config{}, fmt.Errorf("config: %s is given twice", name)
		}
		c.Values[name] = Value(value)
	}
	return c, nil
}

func validWord(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_.+-") == ""
}

// Join returns one config for a dispatch and a combine that are tuned together. A "+" joins the kernels' names.
// Parameters get the prefix "dispatch." or "combine.".
func Join(dispatch, combine Config) Config {
	c := Config{Kernel: dispatch.Kernel + "+" + combine.Kernel, Values: map[string]Value{}}
	for n, v := range dispatch.Values {
		c.Values["dispatch."+n] = v
	}
	for n, v := range combine.Values {
		c.Values["combine."+n] = v
	}
	return c
}

// Split returns the two configs from which Join made c.
func Split(c Config) (dispatch, combine Config, err error) {
	d, k, ok := strings.Cut(c.Kernel, "+")
	if !ok {
		return Config{}, Config{}, fmt.Errorf("config: kernel %q is not a pair; write dispatch+combine", c.Kernel)
	}
	dispatch = Config{Kernel: d, Values: map[string]Value{}}
	combine = Config{Kernel: k, Values: map[string]Value{}}
	for n, v := range c.Values {
		if rest, ok := strings.CutPrefix(n, "dispatch."); ok {
			dispatch.Values[rest] = v
		} else if rest, ok := strings.CutPrefix(n, "combine."); ok {
			combine.Values[rest] = v
		} else {
			return Config{}, Config{}, fmt.Errorf("config: parameter %q of a pair needs the prefix `dispatch.` or `combine.`", n)
		}
	}
	return dispatch, combine, nil
}

// MaxParams is the largest number of parameters of one config.
const MaxParams = 64

// Validate returns an error if ParseConfig does not accept the spelling of c.
func (c Config) Validate() error {
	if len(c.Values) > MaxParams {
		return fmt.Errorf("values: %d parameters, at most %d", len(c.Values), MaxParams)
	}
	if c.IsDefault() {
		if len(c.Values) > 0 {
			return fmt.Errorf("values: the default config must have no values")
		}
		return nil
	}
	if back, err := ParseConfig(c.Key()); err != nil || !maps.Equal(back.Values, c.Values) {
		return fmt.Errorf("kernel: %.60q or one of its parameter names is not a lower-case word", c.Kernel)
	}
	return nil
}

// Difference returns the values of c that differ from a default config, such as "algo=dedup sms=64". It returns
// "default" if no value differs, and c.Key() if the kernels differ.
func (c Config) Difference(dflt Config) string {
	if c.Kernel != dflt.Kernel {
		return c.Key()
	}
	var out []string
	for _, name := range c.Names() {
		if c.Values[name] != dflt.Values[name] {
			out = append(out, name+"="+string(c.Values[name]))
		}
	}
	if len(out) == 0 {
		return "default"
	}
	return strings.Join(out, " ")
}

// Cost says which GPU resources a config takes from the rest of the model. If several configs are about equally
// fast, a search chooses the config with the least cost.
type Cost struct {
	SMs     int `json:"sms"`     // SMs of one GPU; goroutines on the CPU backend
	Threads int `json:"threads"` // threads of one block
	Bytes   int `json:"bytes"`   // bytes of the buffers whose size depends on the config
}

// Compare orders costs by SMs, then by threads, then by bytes.
func (c Cost) Compare(d Cost) int {
	return cmp.Or(cmp.Compare(c.SMs, d.SMs), cmp.Compare(c.Threads, d.Threads), cmp.Compare(c.Bytes, d.Bytes))
}

const idAlphabet = "0123456789abcdefghjkmnpqrstvwxyz"

var idEncoding = base32.NewEncoding(idAlphabet).WithPadding(base32.NoPadding)

const idLength = 4

// ID returns the first characters of a hash of c.Key(). For a pair it returns two ids, joined by "+". For the zero
// Config it returns "default".
func (c Config) ID() string {
	if c.IsDefault() {
		return c.Key()
	}
	return c.id(idLength)
}

// LongID returns a longer id, for configs with equal IDs.
func (c Config) LongID() string { return c.id(2 * idLength) }

func (c Config) id(length int) string {
	if dispatch, combine, err := Split(c); err == nil {
		return dispatch.id(length) + "+" + combine.id(length)
	}
	return c.hash()[:length]
}

func (c Config) hash() string {
	sum := sha256.Sum256([]byte(c.Key()))
	return idEncoding.EncodeToString(sum[:16])
}

// HasID reports whether id is an id of c, short or long.
func (c Config) HasID(id string) bool {
	if dispatch, combine, err := Split(c); err == nil {
		d, k, ok := strings.Cut(id, "+")
		return ok && dispatch.HasID(d) && combine.HasID(k)
	}
	return IsID(id) && strings.HasPrefix(c.hash(), id)
}

// IsID reports whether s is spelled like an id.
func IsID(s string) bool {
	for part := range strings.SplitSeq(s, "+") {
		if len(part) < idLength || len(part) > 26 || strings.Trim(part, idAlphabet) != "" {
			return false
		}
	}
	return true
}
