// Package live follows a run that another process measures. It reads the run directory.
package live

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// A Follower holds the state of a run at the last Update.
type Follower struct {
	Run      *record.Run
	Searches []*Search // in order of their start
	Rounds   int       // of all configs
	byCase   map[searchID]*Search
	path     string
	offset   int64           // log bytes read
	block    []record.Result // lines of the unfinished block (the configs of the same rounds)
	last     time.Time       // last block's end, by the measuring host's clock
	seen     time.Time       // last block's arrival, by this host's clock
	saved    time.Time       // run.json's time, by the measuring host's clock
}

type searchID struct {
	problem ep.Problem
	routing string
}

// Follow begins to follow a run directory.
func Follow(path string) *Follower { return &Follower{path: path, byCase: map[searchID]*Search{}} }

// Update reads run.json and the new lines of the log, if there is a log.
func (f *Follower) Update(now time.Time) error {
	run, err := record.ReadRun(f.path)
	if err != nil {
		return err
	}
	if info, err := os.Stat(filepath.Join(f.path, record.RunFile)); err == nil {
		f.saved = info.ModTime()
	}
	f.Run = run
	if err := f.readLog(now); err != nil {
		return err
	}
	f.addDecisions()
	return nil
}

func (f *Follower) readLog(now time.Time) error {
	log, err := os.Open(filepath.Join(f.path, record.TrialsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		return err
	}
	if info.Size() < f.offset { // sweep --resume shortened the log
		run, saved := f.Run, f.saved
		*f = *Follow(f.path)
		f.Run, f.saved = run, saved
	}
	if _, err := log.Seek(f.offset, io.SeekStart); err != nil {
		return err
	}
	return f.readLines(record.NewReader(log), now)
}

func (f *Follower) readLines(in *record.Reader, now time.Time) error {
	from := f.offset
	for {
		var r record.Result
		err := in.Read(&r)
		f.offset = from + in.Offset()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("after %d bytes: %w", from, err)
		}
		if f.block = append(f.block, r); r.End {
			f.addBlock(f.block)
			f.block, f.last, f.seen = nil, r.Time, now
		}
	}
}

func (f *Follower) addBlock(block []record.Result) {
	if s := f.search(&block[0]); s != nil {
		s.add(block)
	}
	for i := range block {
		f.Rounds += len(block[i].Seconds)
	}
}

// search returns the search of a log line, and adds a new search if needed. Lines of the stages "cross"
// and "recheck" add none, because they time winners of other searches. For them, the result may be nil.
func (f *Follower) search(r *record.Result) *Search {
	id := searchID{r.Problem, r.Routing}
	if s := f.byCase[id]; s != nil {
		return s
	}
	if r.Stage == record.StageCross || r.Stage == record.StageRecheck {
		return nil
	}
	s := newSearch(r.Problem, r.Routing)
	f.byCase[id] = s
	f.Searches = append(f.Searches, s)
	return s
}

func (f *Follower) addDecisions() {
	for i := range f.Run.Searches {
		done := &f.Run.Searches[i]
		if s := f.byCase[searchID{done.Problem, done.Routing}]; s != nil {
			s.Decided = done
		}
	}
}

// Current returns the search that was measured last, nil before the first block.
func (f *Follower) Current() *Search {
	var out *Search
	for _, s := range f.Searches {
		if out == nil || s.ended.After(out.ended) {
			out = s
		}
	}
	return out
}

// Elapsed returns how long the run has taken. It never subtracts times of two hosts' clocks.
func (f *Follower) Elapsed(now time.Time) time.Duration {
	out := time.Duration(f.Run.Wall.Total * float64(time.Second))
	if !f.Run.Finished.IsZero() || f.last.IsZero() {
		return out
	}
	return out + max(0, f.last.Sub(f.saved)) + f.Silent(now)
}

// Silent returns the time since Update read the last block, 0 before the first block.
func (f *Follower) Silent(now time.Time) time.Duration {
	if f.seen.IsZero() {
		return 0
	}
	return now.Sub(f.seen)
}

// Left returns the rest of the budget. Without a budget, it estimates that each unfinished search takes the mean time
// of the finished searches. ok is false if no budget is set and there is nothing to estimate: before the first search
// has finished, and after the last one.
func (f *Follower) Left(now time.Time) (left time.Duration, ok bool) {
	elapsed, done := f.Elapsed(now), len(f.Run.Searches)
	switch {
	case f.Run.Budget > 0:
		return max(0, time.Duration(f.Run.Budget*float64(time.Second))-elapsed), true
	case done == 0 || done >= f.Run.Planned:
		return 0, false
	}
	each := f.Run.Wall.Total / float64(done)
	running := elapsed - time.Duration(f.Run.Wall.Total*float64(time.Second))
	return max(0, time.Duration(each*float64(f.Run.Planned-done)*float64(time.Second))-running), true
}
