package table

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sort"

	"github.com/epbench/epbench/tune/ep"
)

// Resolved is a Set worked out for one host and problem: an array over token counts
// and routing classes. It never changes and is safe to share.
type Resolved struct {
	problem ep.Problem
	host    Host
	span    int      // token counts 0 to span-1 have cells
	cells   []uint32 // [class, tokens] index into answers
	answers []Answer // 0 is the default
	ids     []string // of the tables behind it
	notes   []string
}

// Resolve works out the answer for every token count up to p.MaxTokens and every
// routing class. Do it once. p.Tokens is not looked at, so that ranks with different
// numbers of tokens resolve alike.
func (s *Set) Resolve(h Host, p ep.Problem) *Resolved {
	p.Tokens = 0
	usable, notes := s.For(h, p)
	r := &Resolved{problem: p, host: h, notes: notes, answers: []Answer{{Reason: usable.noRowReason(KeyOf(p, ep.AllRoutings))}}}
	for _, src := range usable.Sources() {
		r.ids = append(r.ids, src.Table.ID)
	}
	classes := ep.Classes()
	rows := make([][]match, len(classes))
	for i, c := range classes {
		rows[i] = usable.matches(KeyOf(p, c).Vector())
		for _, m := range rows[i] {
			r.span = max(r.span, min(usable.rows[m.place].row.Hi, p.MaxTokens)+1)
		}
	}
	r.cells = make([]uint32, len(classes)*r.span)
	next := make([]int32, r.span+1)
	for i, c := range classes {
		r.paint(usable, KeyOf(p, c), painter{r.cells[i*r.span : (i+1)*r.span], next}, rows[i])
	}
	return r
}

// Resolve works out one table, as Set.Resolve does.
func (t *Table) Resolve(h Host, p ep.Problem) *Resolved {
	return Overlay(Source{Name: "table", Table: t}).Resolve(h, p)
}

// paint fills the cells of one class from the rows that match, best first.
func (r *Resolved) paint(s *Set, k Key, p painter, rows []match) {
	p.reset()
	query := k.Vector()
	for _, m := range rows {
		row := s.rows[m.place].row
		a := s.answer(m, query)
		last := r.lastLegal(k, row, a.Config)
		if p.fill(row.Lo, last, uint32(len(r.answers))) {
			r.answers = append(r.answers, a)
		}
		if p.fill(max(row.Lo, last+1), row.Hi, uint32(len(r.answers))) {
			a.Config, a.Reason = ep.Config{}, Illegal
			r.answers = append(r.answers, a)
		}
	}
}

// lastLegal is the largest token count of a row for which its config can run on the host,
// below row.Lo where there is none. What runs with some tokens runs with fewer of the
// same row: a config needs more memory with more tokens, if anything.
func (r *Resolved) lastLegal(k Key, row *Row, c ep.Config) int {
	most := min(row.Hi, r.problem.MaxTokens)
	if c.IsDefault() || most < row.Lo || r.legal(k, most, c) {
		return row.Hi
	}
	return row.Lo - 1 + sort.Search(most-row.Lo, func(i int) bool { return !r.legal(k, row.Lo+i, c) })
}

// legal reports whether a config can run with so many tokens on the host, as far as it
// can tell.
func (r *Resolved) legal(k Key, tokens int, c ep.Config) bool {
	if r.host.Check == nil {
		return true
	}
	q := k.Problem(tokens)
	q.MaxTokens = r.problem.MaxTokens
	return r.host.Check(r.host.Machine, q, c) == nil
}

// painter fills each cell once. next[i] leads to the first free cell from i on, so
// that an interval costs no more than its free cells.
type painter struct {
	cells []uint32
	next  []int32
}

func (p painter) reset() {
	for i := range p.next {
		p.next[i] = int32(i)
	}
}

func (p painter) free(i int32) int32 {
	for p.next[i] != i {
		p.next[i] = p.next[p.next[i]]
		i = p.next[i]
	}
	return i
}

// fill gives the free cells of lo to hi a value and reports whether there were any.
func (p painter) fill(lo, hi int, value uint32) (filled bool) {
	end := int32(min(hi, len(p.cells)-1))
	if lo > int(end) {
		return false
	}
	for i := p.free(int32(lo)); i <= end; i = p.free(i) {
		p.cells[i], p.next[i], filled = value, i+1, true
	}
	return filled
}

// Lookup answers a step from the token count of its fullest rank and its routing class.
// It is one array index and allocates nothing. The answer is shared: do not change it.
func (r *Resolved) Lookup(tokens int, c ep.Class) *Answer {
	if uint(tokens) >= uint(r.span) {
		return &r.answers[0]
	}
	return &r.answers[r.cells[c.Index()*r.span+tokens]]
}

// Problem is what was resolved.
func (r *Resolved) Problem() ep.Problem { return r.problem }

// Notes say which tables were refused and which are not verified, and why.
func (r *Resolved) Notes() []string { return r.notes }

// Run is a stretch of token counts with one answer.
type Run struct {
	Lo, Hi int // inclusive
	Answer *Answer
}

// Runs lists the answers of a class over token counts lo to hi, in order.
func (r *Resolved) Runs(c ep.Class, lo, hi int) []Run {
	var out []Run
	for n := lo; n <= hi; n++ {
		a := r.Lookup(n, c)
		if k := len(out) - 1; k >= 0 && out[k].Answer == a {
			out[k].Hi = n
			continue
		}
		out = append(out, Run{n, n, a})
	}
	return slices.Clip(out)
}

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
