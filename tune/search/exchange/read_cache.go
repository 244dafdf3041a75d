package exchange

import (
	"errors"
	"fmt"
	"math"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// outsideSpace stands in place of a time in Kernel Tuner's entry for a config outside the space.
const outsideSpace = "InvalidConfig"

// cached reads one entry of "cache". Times are in milliseconds.
func (r *reader) cached(key string) error {
	if len(r.names) == 0 {
		return errors.New("tune_params_keys: missing before the cache")
	}
	var all map[string]jsontext.Value
	if err := r.value(&all); err != nil {
		return fmt.Errorf("cache[%q]: %w", key, err)
	}
	p, err := r.cachedPoint(all)
	if err != nil {
		return fmt.Errorf("cache[%q]: %w", key, err)
	}
	if p.Failure != outsideSpace {
		r.points = append(r.points, p)
	}
	return nil
}

func (r *reader) cachedPoint(all map[string]jsontext.Value) (p Point, err error) {
	config := map[string]jsontext.Value{}
	for _, name := range r.names {
		v, ok := all[name]
		if !ok {
			return p, fmt.Errorf("%s: missing", name)
		}
		config[name] = v
	}
	if p.Config.Values, err = values(config); err != nil {
		return p, err
	}
	for _, name := range []string{"compile_time", "verification_time", "framework_time"} {
		ms := 0.0
		if v, ok := all[name]; ok && json.Unmarshal(v, &ms) != nil {
			return p, fmt.Errorf("%s: %s is not a number", name, v)
		}
		p.Prepare += ms
	}
	if v := all["time"]; v.Kind() == '"' {
		p.Time = math.NaN()
		return p, json.Unmarshal(v, &p.Failure)
	}
	if v, ok := all["times"]; ok {
		if err := json.Unmarshal(v, &p.Runs); err != nil {
			return p, fmt.Errorf("times: %w", err)
		}
	}
	if err := json.Unmarshal(all["time"], &p.Time); err != nil {
		return p, fmt.Errorf("time: %w", err)
	}
	return p, nil
}
