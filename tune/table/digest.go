package table

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/epbench/epbench/tune/ep"
)

// Digest is a fingerprint of what one rank would launch. Ranks exchange digests before
// the first launch.
type Digest [sha256.Size]byte

// Digest is the same on two ranks only if they resolved the same problem from the same
// tables to the same answers. File names are left out, because another host may have
// the table elsewhere, and so is whether answers are verified.
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

// Agree keeps ranks in step. Given the digests of all ranks, it returns r if they are
// equal, and otherwise a Resolved that answers the default to everything. All ranks see
// the same digests and so decide alike, without a second exchange. Fewer digests than
// ranks count as a difference.
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
