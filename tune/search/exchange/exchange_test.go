package exchange

import (
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/bounded"
)

// Each of these files holds the same 74 of the 4,092 configs of pnpoly on an RTX 3090, cut out of
// https://github.com/AutoTuningAssociation/benchmark_hub at commit 8eeb99e, MIT licence:
// currently_unused/cachefiles/pnpoly/RTX_3090_T4.json.gz and
// currently_unused/cachefiles/KernelTuner data/pnpoly/RTX_3090.json.gz.
const (
	t4File    = "testdata/pnpoly-RTX_3090_T4.json"
	cacheFile = "testdata/pnpoly-RTX_3090.json"
)

func readSpace(t *testing.T, path string) *Space {
	t.Helper()
	s, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBothFormatsGiveTheSameSpace(t *testing.T) {
	t4, cache := readSpace(t, t4File), readSpace(t, cacheFile)
	if len(t4.Points) != 74 || len(cache.Points) != 74 {
		t.Fatalf("%d and %d configs, want 74 each", len(t4.Points), len(cache.Points))
	}
	of, failed := map[string]Point{}, 0
	for _, p := range cache.Points {
		p.Config.Kernel = "kernel"
		of[p.Config.Key()] = p
	}
	for _, p := range t4.Points {
		q, ok := of[p.Config.Key()]
		if !ok {
			t.Fatalf("the cache file lacks %s", p.Config.Key())
		}
		if (p.Failure == "") != (q.Failure == "") {
			t.Errorf("%s: failure %q in T4, %q in the cache", p.Config.Key(), p.Failure, q.Failure)
		}
		if p.Failure != "" {
			failed++
			continue
		}
		if len(p.Runs) != 10 || len(q.Runs) != 10 || math.Abs(p.Runs[3]-q.Runs[3]) > 1e-9 {
			t.Errorf("%s: runs %v in T4, %v in the cache", p.Config.Key(), p.Runs, q.Runs)
		}
		if math.Abs(p.Prepare-q.Prepare) > 1e-9 {
			t.Errorf("%s: prepared in %g s in T4, in %g s in the cache", p.Config.Key(), p.Prepare, q.Prepare)
		}
	}
	if failed != 10 {
		t.Errorf("%d configs failed, want 10", failed)
	}
	if t4.Name != "testdata/pnpoly-RTX_3090" || cache.Points[0].Config.Kernel == "kernel" {
		t.Errorf("names %q and %q", t4.Name, cache.Points[0].Config.Kernel)
	}
}

func TestUnitsAreSeconds(t *testing.T) {
	p := readSpace(t, cacheFile).Points[0]
	if math.Abs(p.Time-0.04355386) > 1e-8 || math.Abs(p.Prepare-0.02684607) > 1e-8 || p.Config.Values["block_size_x"] != "32" {
		t.Errorf("got %+v", p)
	}
}

func TestTimesAreCompared(t *testing.T) {
	if n := readSpace(t, t4File).Inconsistent; n < 20 {
		t.Errorf("%d times differ in the T4 file, want 20 or more", n)
	}
	if n := readSpace(t, cacheFile).Inconsistent; n != 0 {
		t.Errorf("%d times differ in the cache file, want none", n)
	}
}

func TestBadSpaces(t *testing.T) {
	good, err := os.ReadFile(t4File)
	if err != nil {
		t.Fatal(err)
	}
	change := func(old, by string) string {
		if !strings.Contains(string(good), old) {
			t.Fatalf("the file has no %q", old)
		}
		return strings.Replace(string(good), old, by, 1)
	}
	for name, c := range map[string]struct{ text, want string }{
		"no object":        {`[1]`, "neither a T4 file"},
		"neither format":   {`{"a": 1}`, "neither a T4 file"},
		"other schema":     {change(`"schema_version":"1.0.0"`, `"schema_version":"2.0.0"`), `schema_version: "2.0.0"`},
		"other unit":       {change(`"timeunit":"miliseconds"`, `"timeunit":"weeks"`), `metadata.timeunit: unknown "weeks"`},
		"no objective":     {change(`"objectives":["time"]`, `"objectives":["watts"]`), `no measurement of the objective "watts"`},
		"two objectives":   {change(`"objectives":["time"]`, `"objectives":["time","watts"]`), "one objective"},
		"negative time":    {change(`"value":46.268736`, `"value":-1`), "not positive and finite"},
		"twice":            {`{"tune_params_keys": ["a"], "cache": {"1": {"a": 1, "time": 2}, "2": {"a": 1, "time": 2}}}`, "twice"},
		"no key names":     {`{"cache": {"1": {"a": 1, "time": 2}}}`, "tune_params_keys: missing"},
		"missing value":    {`{"tune_params_keys": ["a"], "cache": {"1": {"time": 2}}}`, "a: missing"},
		"nested value":     {`{"tune_params_keys": ["a"], "cache": {"1": {"a": [1], "time": 2}}}`, "not a number, text or truth value"},
		"nothing measured": {`{"tune_params_keys": ["a"], "cache": {"1": {"a": 1, "time": "CompilationFailedConfig"}}}`, "no config has a time"},
		"cut":              {string(good[:len(good)/2]), "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := readSmall(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestConfigsOutsideTheSpaceAreLeftOut(t *testing.T) {
	s, err := readSmall(strings.NewReader(`{"tune_params_keys": ["a", "b"], "cache": {
		"1": {"a": 1, "b": "x", "time": "InvalidConfig"}, "2": {"a": 2, "b": true, "time": 3}}}`))
	if err != nil || len(s.Points) != 1 || s.Points[0].Config.Values["b"] != "true" {
		t.Errorf("got %+v, %v", s, err)
	}
}

func FuzzRead(f *testing.F) {
	for _, path := range []string{t4File, cacheFile} {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text[:2000])
	}
	f.Add([]byte(`{"tune_params_keys": ["a"], "cache": {"1": {"a": 1, "time": 2}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := readSmall(strings.NewReader(string(text))); err == nil && len(s.Points) == 0 {
			t.Error("a space without configs")
		}
	})
}

func readSmall(in io.Reader) (*Space, error) { return read(in, bounded.New(0)) }
