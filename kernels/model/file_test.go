package model

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

func fitted(t *testing.T) *File {
	f, err := Links()
	if err != nil {
		t.Fatal(err)
	}
	f.SMs = 132
	costs := Coefficients{Fixed: 3, Expert: 0.005, Doubling: 0.5, LinkShare: 0.8, Local: 0.2, Own: 0.3, Row: 1e-4, SM: 20, Sharpness: 0.1}
	for _, op := range ep.RowOps() {
		f.Families = append(f.Families, Family{Design: "tuned", Op: op, Dispatch: ep.FP8, Precision: "full", Rows: 20, Costs: costs})
	}
	return f
}

func TestFileComesBack(t *testing.T) {
	f := fitted(t)
	f.Recorded, f.LeftOut = []string{"run"}, &Error{Parts: 1, Rows: 20, Median: 0.05, P95: 0.2, Worst: 0.5}
	var b bytes.Buffer
	if err := f.Write(&b); err != nil {
		t.Fatal(err)
	}
	got, err := Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, f) {
		t.Errorf("got %+v, want %+v", got, f)
	}
}

func TestReadOther(t *testing.T) {
	for _, text := range []string{`{"schema": 1, "tool": "x", "command": []}`, "[1, 2]", "hello"} {
		if _, err := Read(strings.NewReader(text)); err == nil || err.Error() != "not a model file; epbench model fit makes one" {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestReadNamesTheField(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"schema: 1", "schema: 2", "schema: 2"},
		{"value: 450", "value: 450000", "links[0].gb_per_s.value: 450000"},
		{"value: 450", "value: .nan", "links[0].gb_per_s.value"},
		{"value: 8.35", "value: -1", "links[2].latency_us.value: -1"},
		{"reach: network", "reach: space", "links[2].reach"},
		{`date: "2026-11-21"`, `date: ""`, "links[0].gb_per_s.date"},
		{"name: ndr400", "name: nvlink4", "links[2].name"},
		{"schema: 1", "schema: 1\nspeed: 3", "speed"},
		{"source: \"put with signal between 2 H200, NVSHMEM 3.4.5, own trial\"", "source: \"\"", "links[0].latency_us.source"},
	} {
		text := strings.Replace(builtinLinks, c.from, c.to, 1)
		if text == builtinLinks {
			t.Fatalf("links.yaml has no %s", c.from)
		}
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.to, err, c.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(builtinLinks)
	f.Add("schema: 1\nlinks: []")
	f.Fuzz(func(t *testing.T, s string) {
		m, err := Read(strings.NewReader(s))
		if err == nil && len(m.Links) == 0 {
			t.Error("a file without links was read")
		}
	})
}

func TestPredictByHand(t *testing.T) {
	host := Link{Bandwidth: Fact{Value: 400}, Latency: Fact{Value: 2}}
	net := Link{Bandwidth: Fact{Value: 50}, Latency: Fact{Value: 8}}
	c := Coefficients{Fixed: 3, Expert: 0.1, Doubling: 1, LinkShare: 0.5, Local: 0.5, Row: 0.001, SM: 0}
	call := Call{Host: 20e6, Rows: 1000, Expert: 4e6, LocalExperts: 10, HostRanks: 8, SMs: 100}
	// Fixed: 3 us + 10 experts x 0.1 us + 3 doublings to 8 ranks x 1 us = 7 us. Link: 20 MB / (0.5 x 400 GB/s) = 100 us.
	// Memory: 4 MB x 0.5 us + 1000 rows x 0.001 us = 3 us. With sharpness 0 the model adds them: 110 us.
	want := Prediction{Seconds: 110e-6, Limit: LimitLink, Fixed: 7e-6, Link: 100e-6, Memory: 3e-6}
	if got := Predict(c, call, host, net); !near(got, want) {
		t.Errorf("in a host: got %+v, want %+v", got, want)
	}
	call.Network, call.Hops, call.Forwards = 20e6, 1, 1
	// Network: 20 MB / 50 GB/s = 400 us, longer than link and memory. Latency: (8 - 2) us + 2 us. Sum: 415 us.
	want = Prediction{Seconds: 415e-6, Limit: LimitNetwork, Fixed: 7e-6, Latency: 8e-6, Link: 100e-6, Memory: 3e-6, Network: 400e-6}
	if got := Predict(c, call, host, net); !near(got, want) {
		t.Errorf("over hosts: got %+v, want %+v", got, want)
	}
	c.SM = 1e4 // (20 + 4) MB x 10,000 us / 100 SMs = 2,400 us
	if got := Predict(c, call, host, net); got.Limit != LimitSMs || got.SMs != 2400e-6 {
		t.Errorf("few SMs: %+v", got)
	}
}

func near(a, b Prediction) bool {
	for _, v := range [][2]float64{{a.Seconds, b.Seconds}, {a.Fixed, b.Fixed}, {a.Latency, b.Latency}, {a.Link, b.Link}, {a.Memory, b.Memory}, {a.Network, b.Network}} {
		if math.Abs(v[0]-v[1]) > 1e-9 {
			return false
		}
	}
	return a.Limit == b.Limit
}

func TestNorm(t *testing.T) {
	for _, c := range []struct{ p, a, b, want float64 }{{1, 3, 4, 7}, {2, 3, 4, 5}, {4, 0, 0, 0}, {9, 0, 5, 5}, {2, 3e-200, 4e-200, 5e-200}} {
		if got := norm(c.p, c.a, c.b); math.Abs(got-c.want) > 1e-12*max(c.want, 1e-190) {
			t.Errorf("norm(%v, %v, %v) = %v, want %v", c.p, c.a, c.b, got, c.want)
		}
	}
}

func TestLoadOfNoFile(t *testing.T) {
	if _, err := Load("deepseek-v3"); err == nil || !strings.Contains(err.Error(), "deepseek-v3: no such file or directory; epbench model fit -o FILE makes a model file") {
		t.Errorf("%v", err)
	}
}
