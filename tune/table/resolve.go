package table

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sort"

	"github.com/epbench/epbench/tune/ep"
)

// Resolved holds a Set's answers for one host and problem. It never changes and is safe to share.
type Resolved struct {
	problem ep.Problem
	host    Host
	span    int      // token counts 0 to span-1 have cells
	cells   []uint32 // [class, tokens] index into answers
	answers []Answer
	ids     []string
	notes   []string
}

// Resolve computes the answer for every token count up to p.MaxTokens and every routing class. It ignores p.Tokens, so
// that ranks with different numbers of tokens get equal results.
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
	next, last := make([]int32, r.span+1), lasts{}
	for i, c := range classes {
		r.paint(usable, KeyOf(p, c), painter{r.cells[i*r.span : (i+1)*r.span], next}, rows[i], last)
	}
	return r
}

// Resolve computes the answers of one table, see Set.Resolve.
func (t *Table) Resolve(h Host, p ep.Problem) *Resolved {
	return Overlay(Source{Name: "table", Table: t}).Resolve(h, p)
}

// lasts holds the result of lastLegal for each row, by the row's index in Set.rows. One result serves all classes,
// because the class does not change whether a config is legal.
type lasts map[int32]int

// paint fills the cells of one class with the answers of `rows`. The best row must come first.
func (r *Resolved) paint(s *Set, k Key, p painter, rows []match, known lasts) {
	p.reset()
	query := k.Vector()
	var illegal []match
	for _, m := range rows {
		row := &s.rows[m.place]
		if !p.open(row.row.Lo, row.row.Hi) {
			continue // better rows answer all its token counts
		}
		a := s.answer(m, query)
		last, ok := known[m.place]
		if !ok {
			last = r.lastLegal(k, row.row, a.Config)
			known[m.place] = last
		}
		r.fill(p, row.row.Lo, last, a)
		switch {
		case last >= row.row.Hi:
		case row.foreign():
			illegal = append(illegal, m)
		default:
			r.fill(p, max(row.row.Lo, last+1), row.row.Hi, a.refused())
		}
	}
	for _, m := range illegal {
		row := s.rows[m.place].row
		r.fill(p, row.Lo, row.Hi, s.answer(m, query).refused())
	}
}

func (a Answer) refused() Answer {
	a.Config, a.Reason = ep.Config{}, Illegal
	return a
}

func (r *Resolved) fill(p painter, lo, hi int, a Answer) {
	if p.fill(lo, hi, uint32(len(r.answers))) {
		r.answers = append(r.answers, a)
	}
}

// lastLegal returns the last token count of a row at which the row's config is legal here, or row.Lo-1.
func (r *Resolved) lastLegal(k Key, row *Row, c ep.Config) int {
	most := min(row.Hi, r.problem.MaxTokens)
	if c.IsDefault() || most < row.Lo || r.legal(k, most, c) {
		return row.Hi
	}
	return row.Lo - 1 + sort.Search(most-row.Lo, func(i int) bool { return !r.legal(k, row.Lo+i, c) })
}

func (r *Resolved) legal(k Key, tokens int, c ep.Config) bool {
	q := k.Problem(tokens)
	q.MaxTokens = r.problem.MaxTokens
	return !r.host.illegal(q, c)
}

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

// open reports whether at least one of the cells lo to hi is free.
func (p painter) open(lo, hi int) bool {
	end := min(hi, len(p.cells)-1)
	return lo <= end && int(p.free(int32(lo))) <= end
}

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

// Lookup returns the answer for a class and the tokens of the fullest rank. It allocates nothing. Do not change the
// answer.
func (r *Resolved) Lookup(tokens int, c ep.Class) *Answer {
	if uint(tokens) >= uint(r.span) {
		return &r.answers[0]
	}
	return &r.answers[r.cells[c.Index()*r.span+tokens]]
}

// Problem returns the problem that was resolved.
func (r *Resolved) Problem() ep.Problem { return r.problem }

// Notes says which tables were refused or are not verified, and why.
func (r *Resolved) Notes() []string { return r.notes }

// Run is an interval of token counts with one answer.
type Run struct {
	Lo, Hi int // inclusive
	Answer *Answer
}

// Runs returns the answers of a class over token counts lo to hi, in order.
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

// Digest is a fingerprint of a rank's answers. Ranks exchange digests before the first launch.
type Digest [sha256.Size]byte

// Digest returns the digest of r. It depends on the problem, the answers, the tables and the kernel build, but not on
// file names.
func (r *Resolved) Digest() Digest {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%q\n%s\n", r.problem.Key(), r.ids, r.host.ABI)
	for _, c := range ep.Classes() {
		fmt.Fprintf(h, "%s\n", c)
		for _, run := range r.Runs(c, 0, r.span) {
			fmt.Fprintf(h, "%d %d %s %s\n", run.Lo, run.Hi, run.Answer.Reason, run.Answer.Config.Key())
		}
	}
	return Digest(h.Sum(nil))
}

// Agree returns r if the digests of all ranks are equal, otherwise a Resolved that always answers the default. A
// missing digest counts as different.
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
