package exchange

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/epbench/epbench/tune/ep"
)

type t4Result struct {
	Configuration map[string]jsontext.Value `json:"configuration"`
	Times         struct {
		Compilation float64   `json:"compilation"`
		Framework   float64   `json:"framework"`
		Validation  float64   `json:"validation"`
		Runtimes    []float64 `json:"runtimes"`
	} `json:"times"`
	Invalidity   string   `json:"invalidity"`
	Objectives   []string `json:"objectives"`
	Measurements []struct {
		Name  string         `json:"name"`
		Value jsontext.Value `json:"value"`
	} `json:"measurements"`
}

// results reads the array `results` of a T4 file (JSON results of a tuner).
func (r *reader) results() error {
	if t, err := r.json.ReadToken(); err != nil || t.Kind() != '[' {
		return errors.Join(err, errFormat)
	}
	for i := 0; r.json.PeekKind() != ']'; i++ {
		var x t4Result
		if err := r.value(&x); err != nil {
			return fmt.Errorf("results[%d]: %w", i, err)
		}
		if x.Invalidity == "constraints" {
			continue
		}
		p, err := x.point()
		if err != nil {
			return fmt.Errorf("results[%d]: %w", i, err)
		}
		r.points = append(r.points, p)
	}
	_, err := r.json.ReadToken()
	return err
}

func (x *t4Result) point() (p Point, err error) {
	if p.Config.Values, err = values(x.Configuration); err != nil {
		return p, err
	}
	t := x.Times
	p.Prepare = t.Compilation + t.Framework + t.Validation
	if x.Invalidity != "correct" {
		p.Failure, p.Time = x.Invalidity, math.NaN()
		if p.Failure == "" {
			return p, errors.New("invalidity: missing")
		}
		return p, nil
	}
	p.Runs = t.Runtimes
	if len(x.Objectives) != 1 {
		return p, fmt.Errorf("objectives: %q; only spaces with one objective can be read", x.Objectives)
	}
	for _, m := range x.Measurements {
		if m.Name == x.Objectives[0] {
			return p, json.Unmarshal(m.Value, &p.Time)
		}
	}
	return p, fmt.Errorf("measurements: there is no measurement of the objective %q", x.Objectives[0])
}

func values(in map[string]jsontext.Value) (map[string]ep.Value, error) {
	if len(in) == 0 {
		return nil, errors.New("the config has no parameters")
	}
	out := make(map[string]ep.Value, len(in))
	for name, v := range in {
		switch v.Kind() {
		case '0':
			out[name] = ep.Value(v)
		case '"':
			text, err := strconv.Unquote(string(v))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			out[name] = ep.Value(text)
		case 't', 'f':
			out[name] = ep.Value(v)
		default:
			return nil, fmt.Errorf("%s: %s is not a number, text or truth value", name, v)
		}
	}
	return out, nil
}
