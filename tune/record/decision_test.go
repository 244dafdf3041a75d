package record

import (
	"bytes"
	"encoding/json"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/testfile"
)

func TestBand(t *testing.T) {
	for _, c := range []struct {
		band  Band
		width float64
		noisy bool
	}{{Band{0.01, 0.005}, 0.01, false}, {Band{0.01, 0.01}, 0.01, false}, {Band{0.01, 0.02}, 0.02, true}, {Band{0.01, 0}, 0.01, false}} {
		if c.band.Width() != c.width || c.band.Noisy() != c.noisy {
			t.Errorf("%+v: width %v, noisy %v", c.band, c.band.Width(), c.band.Noisy())
		}
	}
}

func TestCausesThatForbidRows(t *testing.T) {
	for cause, want := range map[Cause]struct{ usable, ok bool }{
		"": {true, true}, HostBound: {true, true}, Noisy: {false, true}, Failed: {false, false}, NoDefault: {false, false},
	} {
		d := Decision{Cause: cause}
		s := Search{Decision: d}
		if d.Usable() != want.usable || s.OK() != want.ok {
			t.Errorf("%q: usable %v, ok %v", cause, d.Usable(), s.OK())
		}
	}
	if got := (Interval{Mid: 1, Low: 0.5, High: 1.25}).Half(); got != 0.375 {
		t.Errorf("half of the width 0.75 is %v", got)
	}
}

func decided() *Run {
	p := sample(0, 0).Problem
	dflt := ep.Config{Kernel: "direct", Values: map[string]ep.Value{"blocks": "1"}}
	fast := dflt.With("blocks", "4")
	gain := Interval{Mid: 1.25, Low: 1.2, High: 1.3}
	return &Run{
		Tool: "test", Command: []string{"epbench"}, Band: 0.01, AA: []AA{{Problem: p.Key(), Routing: "uniform", Ratio: 1, Spread: 0.005, Rounds: 20, Default: 1e-5}},
		Searches: []Search{{Problem: p, Routing: "uniform", Class: ep.Even, Clock: "span", Tried: 3, Legal: 4, Ties: 2, Decision: Decision{
			Config: fast, Default: dflt, Challenger: fast, Gain: gain, ChallengerGain: gain, Band: Band{0.01, 0.005}, Verdict: Faster, Rounds: 25}}},
		Regrets: []Regret{{Problem: p, Routings: []string{"uniform"}, Rows: []RegretRow{
			{Routing: "uniform", Config: fast, Loss: []Loss{0}, Worst: 0}, {Routing: "all", Config: dflt, Loss: []Loss{0.25}, Worst: 0.25}}}},
	}
}

func written(t *testing.T, run *Run) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run")
	d := createDir(t, path, run)
	defer d.Close()
	b := testfile.Read(t, filepath.Join(path, RunFile))
	return b
}

func TestDecisionsComeBack(t *testing.T) {
	want := decided()
	got, err := decodeRun(written(t, want))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read back as\n%+v\nwant\n%+v", got, want)
	}
}

func TestUnknownNumbersAreNull(t *testing.T) {
	run := decided()
	run.Searches[0].Decision.Gain = Interval{Mid: 1.25, Low: math.NaN(), High: math.NaN()}
	run.Regrets[0].Rows[1].Loss[0], run.Regrets[0].Rows[1].Worst = Loss(math.NaN()), Loss(math.Inf(1))
	b := written(t, run)
	for _, text := range []string{`"low": null`, `"high": null`, `"worst": null`} {
		if !bytes.Contains(b, []byte(text)) {
			t.Errorf("run.json lacks %s", text)
		}
	}
	got, err := decodeRun(b)
	if err != nil {
		t.Fatal(err)
	}
	gain, row := got.Searches[0].Decision.Gain, got.Regrets[0].Rows[1]
	if gain.Mid != 1.25 || !math.IsNaN(gain.Low) || !math.IsNaN(gain.High) || !math.IsNaN(float64(row.Loss[0])) || !math.IsNaN(float64(row.Worst)) {
		t.Errorf("read back as %+v, %+v", gain, row)
	}
	v1, err := json.Marshal(run.Searches[0].Decision.Gain)
	if err != nil || string(v1) != `{"mid":1.25,"low":null,"high":null}` {
		t.Errorf("encoding/json writes %s, %v", v1, err)
	}
	for _, text := range []string{`{"mid":1,"low":1,"hi":1}`, `{"mid":"1"}`, `[1,2,3]`} {
		if err := json.Unmarshal([]byte(text), &gain); err == nil {
			t.Errorf("%s was read as an interval", text)
		}
	}
	var l Loss
	if err := json.Unmarshal([]byte(`0.5`), &l); err != nil || l != 0.5 {
		t.Errorf("0.5 is %v, %v", l, err)
	}
}

func TestRunRefuses(t *testing.T) {
	good := string(written(t, decided()))
	for _, c := range []struct{ old, new, want string }{
		{`"schema": 2`, `"schema": 3`, "schema 3, this version reads 2; use the epbench that wrote it"},
		{`"schema": 2`, `"schema": 1`, "schema 1, this version reads 2: an epbench from before v0.1.0 wrote it; sweep again into another directory"},
		{`"verdict": "faster"`, `"verdict": "great"`, `searches[0].decision: unknown verdict "great"`},
		{`"verdict": "faster",`, `"verdict": "faster", "cause": "rain",`, `cause "rain"`},
		{`"ranks": 4`, `"ranks": 0`, "searches[0].problem: ranks: 0"},
		{`"routing": "uniform"`, `"routing": 1`, "/routing"},
		{`"band": 0.01`, `"bond": 0.01`, "unknown"},
		{`"routings": [`, `"routings": ["zipf:1.0",`, "regrets[0]: 2 rows for 2 routings"},
		{"            0\n", "            0, 0\n", "regrets[0]"},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		if text == good {
			t.Fatalf("%s is not there", c.old)
		}
		if _, err := decodeRun([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.new, err, c.want)
		}
	}
}

func FuzzRun(f *testing.F) {
	f.Add([]byte(`{"schema":2,"regrets":[{"problem":{},"routings":[],"rows":[]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		run, err := decodeRun(b)
		if err != nil {
			return
		}
		for _, g := range run.Regrets {
			_ = g.Rows[len(g.Rows)-1]
		}
	})
}
