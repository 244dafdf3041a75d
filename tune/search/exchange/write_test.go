package exchange

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

func small() *Space {
	point := func(sms, copy string, failure string, runs ...float64) Point {
		p := Point{Config: ep.Config{Kernel: "k", Values: map[string]ep.Value{"sms": ep.Value(sms), "copy": ep.Value(copy)}}, Runs: runs, Prepare: 0.25, Failure: failure, Time: math.NaN()}
		if failure == "" {
			p.Time = (runs[0] + runs[1]) / 2
		}
		return p
	}
	return &Space{Name: "k", Points: []Point{point("8", "vector", "", 1e-5, 3e-5), point("128", "vector", "", 2e-6, 4e-6), point("8", "bulk", "compile")}}
}

func same(a, b float64) bool {
	return a == b || math.IsNaN(a) && math.IsNaN(b) || math.Abs(a/b-1) < 1e-9
}

func TestWrittenIsRead(t *testing.T) {
	for name, write := range map[string]func(*Space, *bytes.Buffer) error{
		"T4":    func(s *Space, b *bytes.Buffer) error { return s.WriteT4(b) },
		"cache": func(s *Space, b *bytes.Buffer) error { return s.WriteCache(b, "GPU", "kernel") },
	} {
		var b bytes.Buffer
		want := small()
		if err := write(want, &b); err != nil {
			t.Fatal(err)
		}
		got, err := readSmall(&b)
		if err != nil || len(got.Points) != len(want.Points) || got.Inconsistent != 0 {
			t.Fatalf("%s: %+v, %v", name, got, err)
		}
		for _, p := range got.Points {
			p.Config.Kernel = "k"
			i := slices.IndexFunc(want.Points, func(q Point) bool { return q.Config.Key() == p.Config.Key() })
			if i < 0 {
				t.Fatalf("%s: %s was not written", name, p.Config.Key())
			}
			q := want.Points[i]
			alike := same(p.Time, q.Time) && same(p.Prepare, q.Prepare) && slices.EqualFunc(p.Runs, q.Runs, same) && (p.Failure == "") == (q.Failure == "")
			if !alike {
				t.Errorf("%s: wrote %+v, read %+v", name, q, p)
			}
		}
	}
}

// TestCacheIsWhole: Kernel Tuner's simulation needs an entry for every combination.
func TestCacheIsWhole(t *testing.T) {
	var b bytes.Buffer
	if err := small().WriteCache(&b, "GPU", "kernel"); err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cache map[string]map[string]any `json:"cache"`
	}
	if err := json.Unmarshal(b.Bytes(), &file); err != nil || len(file.Cache) != 4 {
		t.Fatalf("%d entries, %v", len(file.Cache), err)
	}
	for key, want := range map[string]any{"bulk,8": "CompilationFailedConfig", "bulk,128": outsideSpace} {
		if got := file.Cache[key]["time"]; got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
}

func TestT1(t *testing.T) {
	var b bytes.Buffer
	if err := small().WriteT1(&b, "k"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`{"Name":"copy","Type":"string","Values":"[\"bulk\",\"vector\"]"}`, `{"Name":"sms","Type":"int","Values":"[8,128]"}`, `"KernelName":"k"`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in %s", want, b.String())
		}
	}
}

func TestCacheIsBounded(t *testing.T) {
	s := &Space{}
	for i := range 1001 {
		values := map[string]ep.Value{}
		for _, name := range []string{"a", "b", "c"} {
			values[name] = ep.Value("1" + string(rune('0'+i%10)) + string(rune('0'+i/10%10)) + string(rune('0'+i/100%10)))
		}
		s.Points = append(s.Points, Point{Config: ep.Config{Kernel: "k", Values: values}, Time: 1, Runs: []float64{1, 1}})
	}
	var b bytes.Buffer
	if err := s.WriteCache(&b, "GPU", "kernel"); err == nil || b.Len() > 0 || !strings.Contains(err.Error(), "write T4") {
		t.Errorf("%d bytes, %v", b.Len(), err)
	}
}
