package table

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/epbench/epbench/tune/ep"
)

// Digest fingerprints what one rank would do: the tables behind it and every
// answer. Ranks exchange it before the first launch.
type Digest [sha256.Size]byte

// Digest is the same on two ranks only if they resolved the same problem from
// the same tables to the same answers. Sources and verification are left out:
// the same table may lie elsewhere on another host.
func (r *Resolved) Digest() Digest {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%q\n", r.problem.Key(), r.ids)
	for _, c := range ep.Classes() {
		fmt.Fprintf(h, "%s\n", c)
		for _, run := range r.Runs(c, 0, r.span) {
			fmt.Fprintf(h, "%d %d %s %s\n", run.Lo, run.Hi, run.Answer.Reason, run.Answer.Config.Key())
		}
	}
	return Digest(h.Sum(nil))
}

// Agree is the rule that keeps ranks in step: given the digests gathered from
// all ranks it returns r if they are all one, and otherwise a Resolved that
// answers the default to everything. Every rank sees the same digests, so all
// decide alike and none has to wait for another. Fewer digests than ranks
// count as disagreement.
func (r *Resolved) Agree(all []Digest) *Resolved {
	mine := r.Digest()
	if len(all) == r.problem.Ranks && !slices.ContainsFunc(all, func(d Digest) bool { return d != mine }) {
		return r
	}
	return &Resolved{
		problem: r.problem,
		answers: []Answer{{Reason: Disagreed}},
		notes:   append(slices.Clone(r.notes), fmt.Sprintf("ranks: %s; every rank takes the default", disagreement(all, r.problem.Ranks))),
	}
}

func disagreement(all []Digest, ranks int) string {
	if len(all) != ranks {
		return fmt.Sprintf("%d digests gathered from %d ranks", len(all), ranks)
	}
	for rank, d := range all {
		if d != all[0] {
			return fmt.Sprintf("rank %d resolved %x, rank 0 %x", rank, d[:4], all[0][:4])
		}
	}
	return fmt.Sprintf("this rank's digest is not among the %d gathered", len(all))
}
