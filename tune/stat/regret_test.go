package stat

import (
	"math"
	"slices"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

func times(xs map[string]float64) Effects {
	e := Effects{}
	for k, x := range xs {
		e[k] = math.Log(x)
	}
	return e
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-12 }

func TestLossIsAgainstTheBest(t *testing.T) {
	e := times(map[string]float64{"a": 0.5, "b": 1, "c": 0.55})
	for key, want := range map[string]float64{"a": 0, "b": 1, "c": 0.1} {
		if got := float64(e.Loss(key)); !near(got, want) {
			t.Errorf("%s loses %v, want %v", key, got, want)
		}
	}
	if got := float64(e.Loss("d")); !math.IsNaN(got) {
		t.Errorf("a config that was not measured loses %v", got)
	}
	if got := float64(times(map[string]float64{"slow": 3}).Loss("slow")); got != 0 {
		t.Errorf("the only config loses %v against itself", got)
	}
}

var under = []Effects{
	times(map[string]float64{"a": 1, "b": 2, "c": 1.2, "d": 1}),
	times(map[string]float64{"a": 3, "b": 1, "c": 1.1, "e": 1}),
}

func TestWorst(t *testing.T) {
	for key, want := range map[string]float64{"a": 2, "b": 1, "c": 0.2} {
		if got := Worst(under, key); !near(float64(got), want) {
			t.Errorf("%s loses %v at worst, want %v", key, got, want)
		}
	}
	for _, key := range []string{"d", "e", "f"} {
		if got := Worst(under, key); !math.IsNaN(float64(got)) {
			t.Errorf("%s, not measured everywhere, loses %v", key, got)
		}
	}
	if got := Worst(nil, "a"); got != 0 {
		t.Errorf("under no routing: %v", got)
	}
}

func TestMinimax(t *testing.T) {
	for _, c := range []struct {
		name  string
		keys  []string
		band  float64
		want  int
		worst float64
	}{
		{"the least worst loss", []string{"a", "b", "c"}, 0, 2, 0.2},
		{"in any order", []string{"c", "a", "b"}, 0, 0, 0.2},
		{"the first within the band", []string{"a", "b", "c"}, 1, 1, 1}, // 1+1 <= 1.2*2 < 1+2
		{"the first of all", []string{"a", "b", "c"}, 2, 0, 2},
		{"no config that failed under a routing", []string{"d", "b"}, 0, 1, 1},
		{"only failures", []string{"d", "e"}, 0, -1, math.NaN()},
		{"nothing", nil, 0, -1, math.NaN()},
	} {
		got, worst := Minimax(under, c.keys, c.band)
		if got != c.want || !near(worst, c.worst) && !(math.IsNaN(worst) && math.IsNaN(c.worst)) {
			t.Errorf("%s: %d at %v, want %d at %v", c.name, got, worst, c.want, c.worst)
		}
	}
	// A loss equal to the band is within the band.
	two := []Effects{times(map[string]float64{"x": 1, "y": 1.5})}
	if got, _ := Minimax(two, []string{"y", "x"}, 0.5); got != 0 {
		t.Errorf("at the band: %d", got)
	}
}

func TestEverywhere(t *testing.T) {
	if got := MeasuredEverywhere(under); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("measured everywhere: %v", got)
	}
	if got := MeasuredEverywhere(nil); got != nil {
		t.Errorf("under no routing: %v", got)
	}
}

func TestNewRegret(t *testing.T) {
	a, b, c := config("k:x=1"), config("k:x=2"), config("k:x=3")
	key := func(m map[ep.Value]float64) Effects {
		e := Effects{}
		for v, x := range m {
			e["k:x="+string(v)] = math.Log(x)
		}
		return e
	}
	p := ep.Problem{Op: ep.Combine, Tokens: 7}
	r := NewRegret(p, []TunedRouting{
		{"uniform", a, key(map[ep.Value]float64{"1": 1, "2": 1.5, "3": 1.25})},
		{"zipf:1.0", b, key(map[ep.Value]float64{"2": 1, "3": 1.125})},
	}, c)
	if r.Problem != p || !slices.Equal(r.Routings, []string{"uniform", "zipf:1.0"}) || len(r.Rows) != 3 {
		t.Fatalf("%+v", r)
	}
	nan := math.NaN()
	for i, want := range []struct {
		routing string
		config  ep.Config
		loss    []float64
		worst   float64
	}{{"uniform", a, []float64{0, nan}, nan}, {"zipf:1.0", b, []float64{0.5, 0}, 0.5}, {"all", c, []float64{0.25, 0.125}, 0.25}} {
		row := r.Rows[i]
		if row.Routing != want.routing || row.Config.Key() != want.config.Key() || !same(row.Loss, want.loss) || !same([]record.Loss{row.Worst}, []float64{want.worst}) {
			t.Errorf("row %d: %+v, want %+v", i, row, want)
		}
	}
	if last := r.Rows[len(r.Rows)-1]; last.Config.Key() != c.Key() {
		t.Errorf("the minimax row is %+v", last)
	}
	r = NewRegret(p, []TunedRouting{{"uniform", b, key(map[ep.Value]float64{"2": 1})}, {"zipf:1.0", a, key(map[ep.Value]float64{"1": 1, "2": 2})}}, b)
	if !math.IsNaN(float64(r.Rows[1].Worst)) || r.Rows[0].Worst != 1 {
		t.Errorf("worst of a failure before a loss: %v, of two losses: %v", r.Rows[1].Worst, r.Rows[0].Worst)
	}
}

func same(got []record.Loss, want []float64) bool {
	return slices.EqualFunc(got, want, func(g record.Loss, w float64) bool {
		return near(float64(g), w) || math.IsNaN(float64(g)) && math.IsNaN(w)
	})
}
