package table

import (
	"errors"
	"slices"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

func TestLookupPair(t *testing.T) {
	of := func(op ep.Op, lo, hi, threads, hidden int) Row {
		r := testRow(ep.AllRoutings, lo, hi, threads)
		r.Key.Op, r.Key.Hidden, r.Config.Kernel = op, hidden, string(op)
		return r
	}
	pair := of(ep.Pair, 0, 9, 512, 7168)
	pair.Config = ep.Join(of(ep.Dispatch, 0, 9, 512, 7168).Config, of(ep.Combine, 0, 9, 512, 7168).Config)
	kept := of(ep.Combine, 30, 39, 64, 7168)
	kept.Config, kept.Default, kept.Evidence.Gain, kept.Evidence.GainLow, kept.Evidence.GainHigh = ep.Config{}, true, 1, 1, 1
	tab := testTable(pair, of(ep.Dispatch, 0, 49, 128, 7168), of(ep.Combine, 0, 19, 256, 4096), kept)
	if err := tab.Seal(); err != nil {
		t.Fatal(err)
	}
	resolve := func(check func(ep.Machine, ep.Problem, ep.Config) error) (out []*Resolved) {
		for _, op := range []ep.Op{ep.Pair, ep.Dispatch, ep.Combine} {
			p := testKey(ep.AllRoutings).Problem(64)
			p.Op = op
			out = append(out, tab.Resolve(Host{Machine: testMachine, ABI: "abi1", Check: check}, p))
		}
		return out
	}
	// Host.Check accepts pairs of at most 17 tokens.
	resolved := resolve(func(_ ep.Machine, p ep.Problem, c ep.Config) error {
		if p.Op == ep.Pair && p.Tokens > 17 {
			return errors.New("the combine needs rows that the dispatch does not store")
		}
		return nil
	})
	for tokens, want := range map[int]struct {
		reason  Reason
		config  string
		differs []string
	}{
		5:  {Exact, pair.Config.Key(), nil},
		15: {Halves, "dispatch+combine:combine.mode=fused,combine.threads=256,dispatch.mode=fused,dispatch.threads=128", []string{"hidden"}},
		18: {Illegal, "default", nil},
		25: {Uncovered, "default", nil}, // no row for the combine
		35: {Uncovered, "default", nil}, // the combine keeps the default
		60: {Uncovered, "default", nil},
	} {
		a := LookupPair(resolved[0], resolved[1], resolved[2], tokens, ep.AllRoutings)
		if a.Reason != want.reason || a.Config.Key() != want.config || !slices.Equal(a.Differs, want.differs) {
			t.Errorf("%d tokens: %s %s %v, want %+v", tokens, a.Reason, a.Config.Key(), a.Differs, want)
		}
	}
	if blind := resolve(nil); LookupPair(blind[0], blind[1], blind[2], 15, ep.AllRoutings).Reason != Uncovered {
		t.Error("halves are joined although there is no Check that they work together")
	}
}
