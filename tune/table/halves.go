package table

import (
	"slices"

	"github.com/epbench/epbench/tune/ep"
)

// LookupPair answers a pair from its own row. Where no row covers it but rows
// cover its dispatch and its combine, the answer joins their configs, and the
// reason is Halves: each was tuned alone, and nobody timed them together. A half
// that keeps the default has no config to join, so that the pair keeps it too.
//
// The three are the same problem resolved for its three ops. A join allocates: a
// process that asks often keeps what it is told.
func LookupPair(pair, dispatch, combine *Resolved, tokens int, c ep.Class) Answer {
	own := *pair.Lookup(tokens, c)
	d, k := dispatch.Lookup(tokens, c), combine.Lookup(tokens, c)
	if own.Row != nil || d.Config.IsDefault() || k.Config.IsDefault() {
		return own
	}
	return Answer{Config: ep.Join(d.Config, k.Config), Reason: Halves, Differs: union(d.Differs, k.Differs),
		Verified: d.Verified && k.Verified, Source: d.Source}
}

// union lists the fields that are in a or b, in the order of Fields.
func union(a, b []string) []string {
	return slices.DeleteFunc(Fields(), func(f string) bool { return !slices.Contains(a, f) && !slices.Contains(b, f) })
}
