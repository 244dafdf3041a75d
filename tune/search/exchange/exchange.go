// Package exchange reads and writes measured spaces in the formats of other tuners.
//
// It reads and writes two formats:
//
//   - T4, schema 1: https://github.com/odgaard/TuningSchema (T4/results-schema.json). Kernel Tuner
//     1.0 to 1.5 (kernel_tuner/file_utils.py, store_output_file) writes it. The benchmark hub has such files:
//     https://github.com/AutoTuningAssociation/benchmark_hub
//   - The cache file of Kernel Tuner 0.4 to 1.5 (kernel_tuner/util.py, store_cache).
//
// It also writes T1, which describes a space.
package exchange

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"gonum.org/v1/gonum/floats"

	"github.com/epbench/epbench/tune/bounded"
	"github.com/epbench/epbench/tune/ep"
)

// A Space holds all measured configs of one kernel.
type Space struct {
	Name   string // FOLDER/FILE
	Points []Point

	// Inconsistent says how many configs have a Time that differs from the mean of Runs by more than 1 %.
	Inconsistent int
}

// A Point is one measured config.
type Point struct {
	Config  ep.Config
	Time    float64   // seconds; NaN if the config failed
	Runs    []float64 // seconds, in time order
	Prepare float64   // seconds to compile and check
	Failure string    // why the config failed
}

var endings = []string{"_T4.json.gz", "_T4.json", ".json.gz", ".json"}

// Has reports whether a file's name has an ending of these formats.
func Has(path string) bool {
	for _, e := range endings {
		if strings.HasSuffix(path, e) {
			return true
		}
	}
	return false
}

// ReadFile reads a space, compressed by gzip or not.
func ReadFile(path string) (*Space, error) {
	const instead = "give a file that another tuner wrote, or a run directory"
	f, err := os.Open(path)
	if err != nil {
		return nil, ep.FileError(path, err, instead)
	}
	defer f.Close()
	cost, err := bounded.ForFile(f)
	if err != nil {
		return nil, ep.FileError(path, err, instead)
	}
	s, err := read(f, cost)
	if err != nil {
		return nil, ep.FileError(path, err, instead)
	}
	s.Name = filepath.Base(path)
	for _, e := range endings {
		if rest, ok := strings.CutSuffix(s.Name, e); ok {
			s.Name = rest
			break
		}
	}
	if folder := filepath.Base(filepath.Dir(path)); folder != "." && folder != string(filepath.Separator) {
		s.Name = folder + "/" + s.Name
	}
	return s, nil
}

func read(in io.Reader, cost *bounded.Budget) (*Space, error) {
	buffered := bufio.NewReader(in)
	if magic, _ := buffered.Peek(2); string(magic) == "\x1f\x8b" {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, err
		}
		defer z.Close()
		buffered = bufio.NewReader(z)
	}
	d := jsontext.NewDecoder(cost.Reader("the space", buffered))
	r := reader{json: d, cost: cost}
	if err := r.members(r.member); err != nil {
		return nil, err
	}
	if err := r.convert(); err != nil {
		return nil, err
	}
	s := &Space{Points: r.points}
	return s, s.check()
}

type reader struct {
	json   *jsontext.Decoder
	cost   *bounded.Budget
	schema string
	unit   string   // of a T4 file
	kernel string   // of a cache file
	format string   // T4 or cache
	names  []string // parameters of a cache file
	points []Point  // in the file's unit of time; convert changes the times to seconds
}

var errFormat = errors.New(`neither a T4 file (with "results") nor a cache file of Kernel Tuner (with "cache")`)

func (r *reader) members(use func(name string) error) error {
	if t, err := r.json.ReadToken(); err != nil || t.Kind() != '{' {
		return cmp.Or(err, errFormat)
	}
	for r.json.PeekKind() == '"' {
		t, err := r.json.ReadToken()
		if err != nil {
			return err
		}
		if err := use(t.String()); err != nil {
			return err
		}
	}
	_, err := r.json.ReadToken()
	return err
}

func (r *reader) member(name string) error {
	switch name {
	case "schema_version":
		return json.UnmarshalDecode(r.json, &r.schema)
	case "metadata":
		var m struct {
			Unit string `json:"timeunit"`
		}
		err := json.UnmarshalDecode(r.json, &m)
		r.unit = m.Unit
		return err
	case "kernel_name":
		return json.UnmarshalDecode(r.json, &r.kernel)
	case "tune_params_keys":
		return json.UnmarshalDecode(r.json, &r.names)
	case "results":
		r.format = "T4"
		return r.results()
	case "cache":
		r.format = "cache"
		return r.members(r.cached)
	}
	return r.json.SkipValue()
}

func (r *reader) value(v any) error {
	raw, err := r.json.ReadValue()
	if err != nil {
		return err
	}
	if err := r.cost.JSON("configs", raw); err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

// units gives the seconds of each unit of time. The benchmark hub misspells milliseconds.
var units = map[string]float64{
	"miliseconds": 1e-3, "milliseconds": 1e-3, "ms": 1e-3, "microseconds": 1e-6, "us": 1e-6,
	"nanoseconds": 1e-9, "ns": 1e-9, "seconds": 1, "s": 1,
}

func (r *reader) convert() error {
	unit := 1e-3 // of a cache file
	switch r.format {
	case "":
		return errFormat
	case "T4":
		if major, _, _ := strings.Cut(r.schema, "."); major != "1" {
			return fmt.Errorf("schema_version: %q; T4 is read in schema 1", r.schema)
		}
		found, ok := units[r.unit]
		if !ok {
			return fmt.Errorf("metadata.timeunit: unknown %q, use one of seconds, milliseconds, microseconds, nanoseconds", r.unit)
		}
		unit = found
	}
	for i := range r.points {
		p := &r.points[i]
		p.Config.Kernel = cmp.Or(r.kernel, "kernel")
		p.Time *= unit
		p.Prepare *= unit
		for k := range p.Runs {
			p.Runs[k] *= unit
		}
	}
	return nil
}

func (s *Space) check() error {
	seen, timed := map[string]bool{}, 0
	for i := range s.Points {
		p := &s.Points[i]
		key := p.Config.Key()
		switch {
		case seen[key]:
			return fmt.Errorf("config %d (%s): it is in the file twice", i, key)
		case len(p.Config.Values) != len(s.Points[0].Config.Values):
			return fmt.Errorf("config %d (%s): it has %d parameters, the first config has %d", i, key, len(p.Config.Values), len(s.Points[0].Config.Values))
		case p.Failure == "" && !(p.Time > 0 && p.Time < math.MaxFloat32):
			return fmt.Errorf("config %d (%s): time %g is not positive and finite", i, key, p.Time)
		}
		seen[key] = true
		if p.Failure != "" {
			continue
		}
		timed++
		if n := len(p.Runs); n > 0 && math.Abs(floats.Sum(p.Runs)/float64(n)/p.Time-1) > 0.01 {
			s.Inconsistent++
		}
	}
	if timed == 0 {
		return errors.New("no config has a time")
	}
	return nil
}
