package ep

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestIDNamesItsConfig(t *testing.T) {
	half := rapid.Custom(func(t *rapid.T) Config {
		c := Config{Kernel: rapid.SampledFrom([]string{"dispatch", "combine_ll"}).Draw(t, "kernel"), Values: map[string]Value{}}
		for _, name := range []string{"algo", "sms", "threads"} {
			c.Values[name] = rapid.SampledFrom([]Value{"direct", "8", "64"}).Draw(t, name)
		}
		return c
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := half.Draw(t, "a"), half.Draw(t, "b")
		for _, c := range []Config{a, Join(a, b)} {
			if id := c.ID(); !IsID(id) || !c.HasID(id) || !c.HasID(c.LongID()) || len(c.LongID()) <= len(id) {
				t.Fatalf("%s: id %s, long %s", c.Key(), id, c.LongID())
			}
		}
		if same := a.Key() == b.Key(); a.HasID(b.LongID()) != same {
			t.Fatalf("%s and %s share %s", a.Key(), b.Key(), b.LongID())
		}
		if a.HasID(Join(a, b).ID()) || Join(a, b).HasID(a.ID()) {
			t.Fatal("a pair and its half share an id")
		}
	})
}

// TestIDStays: the id of a config may never change.
func TestIDStays(t *testing.T) {
	c := Config{Kernel: "dispatch", Values: map[string]Value{"algo": "dedup", "sms": "64"}}
	if got := c.ID() + " " + c.LongID() + " " + Join(c, c).ID() + " " + (Config{}).ID(); got != "q28e q28exk6c q28e+q28e default" {
		t.Errorf("ids are %s", got)
	}
}

func TestIsID(t *testing.T) {
	for _, s := range []string{"", "d7f", "default", "D7F2", "algo=dedup", "d7f2+", "dispatch:sms=1", "d7f2 ", "fused", strings.Repeat("a", 27)} {
		if IsID(s) {
			t.Errorf("IsID accepts %q", s)
		}
	}
	if !IsID("d7f2") || !IsID("d7f2+0abc") || !IsID(strings.Repeat("a", 26)) {
		t.Error("IsID refuses an id")
	}
}
