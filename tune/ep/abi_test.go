package ep

import (
	"slices"
	"testing"
)

func TestABIOfEachKernel(t *testing.T) {
	each, one := NewABI(map[string]string{"d": "1", "c": "2"}), ABI("worker 1.2")
	if each != "c=2,d=1" || each.Of("d") != "1" || each.Of("x") != "" || one.Of("d") != "worker 1.2" {
		t.Errorf("%q: d is %q, x is %q; of one word %q", each, each.Of("d"), each.Of("x"), one.Of("d"))
	}
	pair := Config{Kernel: "d+c"}
	if got := each.For(pair); got != "c=2,d=1" {
		t.Errorf("the ABI of a pair is %q", got)
	}
	if got := each.For(Config{Kernel: "d"}); got != "d=1" {
		t.Errorf("the ABI of a config of d is %q", got)
	}
	if got := each.For(Config{}) + one.For(Config{}); got != "worker 1.2" {
		t.Errorf("the ABI of a config without a kernel is %q", got)
	}
}

func TestABIServes(t *testing.T) {
	for _, c := range []struct {
		now, row ABI
		serves   bool
		changed  []string
	}{
		{"c=2,d=1", "d=1", true, nil},
		{"c=2,d=9", "d=1", false, []string{"d"}},
		{"c=2,d=1,e=3", "c=2,d=1", true, nil},
		{"c=2", "d=1", false, nil},
		{"w1", "w1", true, nil},
		{"w2", "w1", false, []string{AllKernels}},
		{"c=2,d=1", "w1", false, []string{AllKernels}},
		{"c=2,d=1", "", true, nil},
	} {
		if got := c.now.Serves(c.row); got != c.serves {
			t.Errorf("%q serves %q: %v", c.now, c.row, got)
		}
		if got := c.now.Changed(c.row); !slices.Equal(got, c.changed) {
			t.Errorf("between %q and %q changed %q, want %q", c.now, c.row, got, c.changed)
		}
	}
	if got := ABI("c=2,d=1").Overlay("d=9,e=3"); got != "c=2,d=9,e=3" {
		t.Errorf("both ABIs together: %q", got)
	}
}

func TestABIAccepts(t *testing.T) {
	if one, two := Word(1, "ab"), Word(2, "ab"); one != "ab" || two != "2.ab" {
		t.Errorf("words %q and %q", one, two)
	}
	for _, c := range []struct {
		now, row ABI
		accepts  bool
	}{
		{"c=2f,d=1f", "d=9f", true},
		{"c=2f,d=1.1f", "d=9f", true},
		{"c=2f,d=2.1f", "d=1f", false},
		{"c=2f,d=2.1f", "d=2.9f", true},
		{"c=2f,d=2.1f", "d=20.1f", false},
		{"c=2f,d=1f", "c=3f,d=9f", true},
		{"c=2f,d=1f", "c=2.3f,d=1f", false},
		{"c=2f", "d=1f", false},
		{"c=2f,d=1f", "", true},
		{"worker 1.2", "worker 1.2", true},
		{"worker 1.2", "worker 1.3", false},
		{"c=2f,d=1f", "worker 1.2", false},
		{"", "d=1f", false},
	} {
		if got := c.now.Accepts(c.row); got != c.accepts {
			t.Errorf("%q accepts %q: %v", c.now, c.row, got)
		}
	}
}

func TestFirstBuildNamesItsKernels(t *testing.T) {
	const first = ABI("d294d935a5eed5afb3e2ed0ca8a3790381cb43ebab11ba520e232508de20f421")
	row := first.For(Config{Kernel: "dispatch_ll"})
	if row != "dispatch_ll="+ABI(first.Of("dispatch_ll")) {
		t.Errorf("the ABI of a row of dispatch_ll is %q", row)
	}
	if later := first.Overlay("combine_ll=changed,new=1"); !later.Serves(row) || later.Serves(first.For(Config{Kernel: "combine_ll"})) {
		t.Errorf("%q serves the wrong rows of the first build", later)
	}
}
