package search

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

func ints(name string, values ...int) Axis {
	a := Axis{Name: name}
	for _, v := range values {
		a.Values = append(a.Values, ep.Value(strconv.Itoa(v)))
	}
	return a
}

func newSpace(t interface{ Fatal(...any) }, grids ...Grid) *Space {
	s, _, err := NewSpace(grids...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustParse(t *testing.T, strategy string) Strategy {
	t.Helper()
	s, err := ParseStrategy(strategy)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func even(c ep.Config) string {
	if (c.Int("a")+c.Int("b"))%2 == 1 {
		return "odd sum"
	}
	return ""
}

func small(c ep.Config) string {
	if c.Int("a") > 3 {
		return "a too large"
	}
	return ""
}

func TestSpaceCountsRejections(t *testing.T) {
	g := Grid{Kernel: "k", Axes: []Axis{ints("a", 1, 2, 3, 4), ints("b", 1, 2, 3)}, Rules: []Rule{small, even}}
	s, counts, err := NewSpace(g)
	if err != nil {
		t.Fatal(err)
	}
	want := []record.Rejection{{Rule: "odd sum", Count: 4}, {Rule: "a too large", Count: 3}}
	if c := counts[0]; c.Points != 12 || c.Legal != 5 || s.Len() != 5 || !slices.Equal(c.Rejected, want) {
		t.Errorf("counted %+v", counts)
	}
	outside := ep.Config{Kernel: "k", Values: map[string]ep.Value{"a": "9", "b": "1"}}
	i := s.Add(outside)
	if i != 5 || s.Add(outside) != 5 || s.Config(5).Key() != outside.Key() {
		t.Errorf("an extra config has index %d, key %s", i, s.Config(5).Key())
	}
	if c := s.Clone(); c.Add(outside.With("a", "7")) != 6 || s.Len() != 6 {
		t.Error("adding to a clone changes the original")
	}
}

func TestSpaceRefusesNonsense(t *testing.T) {
	huge := make([]int, 1000)
	for i := range huge {
		huge[i] = i
	}
	for _, g := range []Grid{
		{Kernel: "k", Axes: []Axis{{Name: "a"}}},
		{Kernel: "k", Axes: []Axis{ints("a", huge...), ints("b", huge...), ints("c", huge...)}},
	} {
		if _, _, err := NewSpace(g); err == nil || !strings.Contains(err.Error(), "k") {
			t.Errorf("%d axes: %v", len(g.Axes), err)
		}
	}
}

func drawSpace(t *rapid.T) *Space {
	var grids []Grid
	for k := range rapid.IntRange(1, 2).Draw(t, "kernels") {
		g := Grid{Kernel: "k" + strconv.Itoa(k), Rules: []Rule{even}}
		for _, name := range []string{"a", "b", "c"} {
			values := rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 1, 4, rapid.ID[int]).Draw(t, name)
			g.Axes = append(g.Axes, ints(name, values...))
		}
		grids = append(grids, g)
	}
	return newSpace(t, grids...)
}

func TestSpaceIndicesAreABijection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpace(t)
		seen := map[string]bool{}
		for i := range s.Len() {
			c := s.Config(i)
			if back, ok := s.Index(c); !ok || back != i || seen[c.Key()] {
				t.Fatalf("point %d is %s, which has index %d, %v", i, c.Key(), back, ok)
			}
			seen[c.Key()] = true
			for _, j := range s.Neighbors(i) {
				if !slices.Contains(s.Neighbors(j), i) || differing(c, s.Config(j)) != 1 {
					t.Fatalf("%s and %s are not neighbours", c.Key(), s.Config(j).Key())
				}
			}
		}
	})
}

func differing(a, b ep.Config) int {
	n := 0
	for name, v := range a.Values {
		if b.Values[name] != v {
			n++
		}
	}
	return n
}

func TestFingerprintSeesEverything(t *testing.T) {
	base := Grid{Kernel: "k", Axes: []Axis{ints("a", 1, 2, 3), ints("b", 1, 2)}}
	print := func(abi ep.ABI, change func(*Grid)) string {
		g := Grid{Kernel: base.Kernel, Axes: slices.Clone(base.Axes)}
		change(&g)
		return newSpace(t, g).Fingerprint(abi)
	}
	same := func(*Grid) {}
	if print("x", same) != print("x", same) {
		t.Error("equal spaces differ")
	}
	for name, other := range map[string]string{
		"abi":    print("y", same),
		"kernel": print("x", func(g *Grid) { g.Kernel = "l" }),
		"value":  print("x", func(g *Grid) { g.Axes[0] = ints("a", 1, 2, 4) }),
		"rule":   print("x", func(g *Grid) { g.Rules = []Rule{even} }),
	} {
		if other == print("x", same) {
			t.Errorf("the fingerprint does not see a change of %s", name)
		}
	}
}

func TestListedKeepsItsConfigs(t *testing.T) {
	var configs []ep.Config
	for _, key := range []string{"k:a=1,m=x", "k:a=16,m=x", "k:a=2,m=y"} {
		c, _ := ep.ParseConfig(key)
		configs = append(configs, c)
	}
	s, err := SpaceOf(append(configs, configs[0]))
	if err != nil || s.Len() != 3 {
		t.Fatalf("%d points, %v", s.Len(), err)
	}
	for _, c := range configs {
		if i, ok := s.Index(c); !ok || s.Config(i).Key() != c.Key() {
			t.Errorf("%s is lost", c.Key())
		}
	}
	if a := s.axes("k")[0]; !slices.Equal(a.Values, []ep.Value{"1", "2", "16"}) {
		t.Errorf("values of a are %v", a.Values)
	}
	odd, _ := ep.ParseConfig("k:a=1")
	if _, err := SpaceOf(append(configs, odd)); err == nil {
		t.Error("a config that lacks a parameter was accepted")
	}
	other, _ := ep.ParseConfig("l:b=1")
	if s, err := SpaceOf([]ep.Config{other, configs[0], other}); err != nil || s.Len() != 2 || s.Config(0).Kernel != "l" || s.kernel(1) != 1 {
		t.Errorf("two kernels: %v", err)
	}
	if s, err := SpaceOf(nil); err != nil || s.Len() != 0 {
		t.Errorf("no configs: %v", err)
	}
}

func TestSetDesigns(t *testing.T) {
	s, err := SpaceOf([]ep.Config{
		{Kernel: "k", Values: map[string]ep.Value{"algo": "direct", "n": "1"}},
		{Kernel: "k", Values: map[string]ep.Value{"algo": "home", "n": "2"}},
		{Kernel: "l", Values: map[string]ep.Value{"algo": "direct"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{"k": {"algo"}}
	s.SetDesigns(want)
	if got := s.Designs(); !reflect.DeepEqual(got, want) {
		t.Errorf("designs %v, want %v", got, want)
	}
	if got := s.Design(s.Config(0)); got != "k algo=direct" {
		t.Errorf("design %q", got)
	}
	if got := s.Design(s.Config(2)); got != "l" {
		t.Errorf("design %q", got)
	}
}
