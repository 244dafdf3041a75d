package live

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

const mostFailures = 3

// silence is how long the log may stay unchanged before the page warns.
const silence = 30 * time.Second

// Page returns the state of a run, with rows for the latest searches. `most` limits the rows.
func (f *Follower) Page(now time.Time, most int) reports.Table {
	t := reports.Table{Name: "watch", Title: f.Progress(now), Columns: []reports.Column{
		reports.Words("op"), reports.Words("dtype").Dropped(4), reports.Numbers("tokens", ""), reports.Words("routing").Dropped(1),
		reports.Words("stage"), reports.Numbers("kernels", "").Dropped(5), reports.Numbers("configs", ""), reports.Numbers("failed", "").Dropped(6),
		reports.Numbers("gain", "x"), reports.Words("best so far").Dropped(2), reports.Words("kernel").Dropped(3)}}
	from := max(0, len(f.Searches)-most)
	for _, s := range f.Searches[from:] {
		t.Add(s.cells()...)
	}
	if from > 0 {
		t.Note(fmt.Sprintf("not shown: %s; epbench report %s prints them", ep.Count(from, "earlier row"), ep.Quote(f.path)))
	}
	if c := f.Current(); c != nil && c.Decided == nil {
		all, alive := c.Kernels()
		t.Note(fmt.Sprintf("now: %s; %d of %d kernels in stage %s: %s", reports.Title(c.Problem, c.Routing), len(alive), all, c.Stage, strings.Join(alive, ", ")))
	}
	if slices.ContainsFunc(f.Searches, func(s *Search) bool { return s.Decided == nil && s.rank < rankOf(record.StageConfirm) }) {
		t.Note("gains of undecided searches are mostly too high: configs are chosen and compared in the same rounds")
	}
	f.addFailures(&t)
	if quiet := f.Silent(now); f.Run.Finished.IsZero() && quiet >= silence {
		t.Warn("no new line in the log for %v: the sweep is checking a large problem, or it has ended", quiet.Round(time.Second))
	}
	return t
}

// Progress returns a line with the finished searches, the time taken and the time left.
func (f *Follower) Progress(now time.Time) string {
	var b strings.Builder
	done := len(f.Run.Searches)
	fmt.Fprintf(&b, "%s: %d of %d searches done, %v", f.Run.Machine.Name, done, max(f.Run.Planned, done, 1), f.Elapsed(now).Round(time.Second))
	left, ok := f.Left(now)
	switch {
	case !f.Run.Finished.IsZero():
		b.WriteString(", finished")
	case ok:
		fmt.Fprintf(&b, ", about %v left", left.Round(time.Second))
	}
	return b.String()
}

func (f *Follower) addFailures(t *reports.Table) {
	all := 0
	var last []string
	for _, s := range f.Searches {
		all += len(s.Failed)
		for _, x := range s.Failed {
			last = append(last, fmt.Sprintf("%s %s: %s", x.Config.ID(), x.Status, cmp.Or(x.Reason, "no reason given")))
		}
	}
	if all == 0 {
		return
	}
	last = last[max(0, len(last)-mostFailures):]
	t.Warn("%s, the last: %s", ep.Count(all, "failure"), strings.Join(last, "; "))
}

func (s *Search) cells() []reports.Cell {
	p := s.Problem
	all, alive := s.Kernels()
	row := []reports.Cell{reports.Str(string(p.Op)), reports.Str(string(p.Dispatch)), reports.Int(p.Tokens), reports.Str(ep.RoutingLabel(s.Routing)),
		reports.Str(s.state()), reports.Str(fmt.Sprintf("%d of %d", len(alive), all)), reports.Int(s.Tried()), reports.Int(len(s.Failed))}
	best, gain, ok := s.Best()
	if s.Decided != nil {
		best, gain, ok = s.Decided.Decision.Config, s.Decided.Decision.Gain.Mid, true
	}
	if !ok {
		return append(row, reports.None(), reports.None(), reports.None())
	}
	return append(row, reports.Float(gain, 3), reports.Str(best.ID()), reports.Str(best.Kernel))
}

func (s *Search) state() string {
	if s.Decided == nil {
		return string(s.Stage)
	}
	if d := s.Decided.Decision; d.Cause != "" && d.Verdict == record.Undecided {
		return string(d.Cause)
	}
	return string(s.Decided.Decision.Verdict)
}
