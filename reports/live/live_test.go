package live

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/reports/text"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/testfile"
)

const recorded = "../../testdata/runs/cpu-sweep"

// growing returns the directory of an unfinished run, its whole log, and a function that writes the first n bytes of
// the log.
func growing(t *testing.T) (dir string, log []byte, grow func(n int)) {
	t.Helper()
	dir = t.TempDir()
	run, err := record.ReadRun(recorded)
	if err != nil {
		t.Fatal(err)
	}
	run.Planned, run.Searches, run.Finished, run.Wall = len(run.Searches), nil, time.Time{}, record.Wall{}
	d, err := record.CreateDir(dir, run)
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	log = testfile.Read(t, filepath.Join(recorded, record.TrialsFile))
	return dir, log, func(n int) {
		testfile.Write(t, filepath.Join(dir, record.TrialsFile), log[:n])
	}
}

func page(t *testing.T, f *Follower, now time.Time) string {
	t.Helper()
	var b bytes.Buffer
	if err := text.Renderer(80)(&b, f.Page(now, 14)); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(b.String(), "\n") {
		if len([]rune(line)) > 80 {
			t.Errorf("wider than 80 columns: %s", line)
		}
	}
	return b.String()
}

// TestGrowingLog: a log that is read in pieces gives the same page as the whole log.
func TestGrowingLog(t *testing.T) {
	dir, log, grow := growing(t)
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	f, rounds := Follow(dir), 0
	for n := 0; n < len(log); n += 10_007 {
		grow(n)
		if err := f.Update(now); err != nil {
			t.Fatal(err)
		}
		if f.Rounds < rounds {
			t.Fatalf("the number of rounds fell from %d to %d", rounds, f.Rounds)
		}
		rounds = f.Rounds
		page(t, f, now)
	}
	grow(len(log))
	whole := Follow(dir)
	for _, x := range []*Follower{f, whole} {
		if err := x.Update(now); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := page(t, f, now), page(t, whole, now); got != want || f.Rounds != whole.Rounds {
		t.Errorf("read in pieces:\n%s\nread at once:\n%s", got, want)
	}
}

// TestBestSoFar: the best gain of a search is at least 95 % of the gain in run.json.
func TestBestSoFar(t *testing.T) {
	dir, log, grow := growing(t)
	grow(len(log))
	f := Follow(dir)
	if err := f.Update(time.Now()); err != nil {
		t.Fatal(err)
	}
	run, err := record.ReadRun(recorded)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, done := range run.Searches {
		if done.Decision.Verdict != record.Faster {
			continue
		}
		for _, s := range f.Searches {
			if s.Problem != done.Problem || s.Routing != done.Routing {
				continue
			}
			checked++
			if best, gain, ok := s.Best(); !ok || gain < 0.95*done.Decision.Gain.Mid {
				t.Errorf("%v %s: best %s %.3f, decided %s %.3f", s.Problem, s.Routing, best.ID(), gain, done.Decision.Config.ID(), done.Decision.Gain.Mid)
			}
		}
	}
	if checked == 0 {
		t.Fatal("no search of the recording has a faster config")
	}
}

func TestCrossingsAreNoSearches(t *testing.T) {
	f := Follow("")
	for _, stage := range []record.Stage{record.StageRecheck, record.StageCross} {
		f.addBlock([]record.Result{{Problem: ep.Problem{Op: ep.Dispatch, Tokens: 4}, Routing: "uniform", Stage: stage, Status: ep.OK}})
	}
	if len(f.Searches) != 0 {
		t.Errorf("%d searches", len(f.Searches))
	}
}

// TestResumedLog: a log that became shorter is read again.
func TestResumedLog(t *testing.T) {
	dir, log, grow := growing(t)
	f := Follow(dir)
	for _, n := range []int{len(log), len(log) / 3} {
		grow(n)
		if err := f.Update(time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	anew := Follow(dir)
	if err := anew.Update(time.Now()); err != nil || anew.Rounds != f.Rounds || anew.Rounds == 0 {
		t.Errorf("%d rounds, want %d (%v)", f.Rounds, anew.Rounds, err)
	}
}

func TestKernelsAndFailures(t *testing.T) {
	dir, log, _ := growing(t)
	var first record.Result
	if err := record.NewReader(bytes.NewReader(log)).Read(&first); err != nil {
		t.Fatal(err)
	}
	p := first.Problem
	line := func(stage record.Stage, kernel string, role record.Role, seconds float64, end bool) record.Result {
		r := record.Result{Problem: p, Routing: "uniform", Config: ep.Config{Kernel: kernel}, Role: role, Stage: stage, Status: ep.OK, End: end}
		if seconds == 0 {
			r.Status, r.Reason = ep.Hang, "no answer"
			return r
		}
		r.Seconds = [][]float64{{seconds}, {seconds}}
		return r
	}
	var text []byte
	for _, r := range []record.Result{
		line(record.StageScreen, "plain", record.Default, 4, false), line(record.StageScreen, "quick", record.Candidate, 2, false),
		line(record.StageScreen, "stuck", record.Candidate, 0, true),
		line(record.StageModel, "plain", record.Default, 4, false), line(record.StageModel, "quick", record.Candidate, 1, true),
	} {
		var err error
		if text, err = r.AppendJSON(text); err != nil {
			t.Fatal(err)
		}
	}
	testfile.Write(t, filepath.Join(dir, record.TrialsFile), text)
	f, now := Follow(dir), time.Now()
	if err := f.Update(now); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(strings.Fields(page(t, f, now.Add(time.Minute))), " ")
	for _, want := range []string{"2 of 3 kernels in stage model: plain, quick", "1 failure, the last:", "no answer", "no new line in the log for 1m0s", "2.828"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}

func TestTimeLeft(t *testing.T) {
	now := time.Now()
	f := &Follower{Run: &record.Run{Planned: 4, Budget: 60, Wall: record.Wall{Total: 20}, Searches: make([]record.Search, 2)}, last: now, saved: now, seen: now}
	if left, ok := f.Left(now.Add(5 * time.Second)); !ok || left != 35*time.Second {
		t.Errorf("with a budget: %v left, %v; want 60 - 20 - 5 = 35 s", left, ok)
	}
	f.Run.Budget = 0
	if left, ok := f.Left(now.Add(5 * time.Second)); !ok || left != 15*time.Second {
		t.Errorf("without a budget: %v left, %v; want 2 x 20/2 - 5 = 15 s", left, ok)
	}
	f.Run.Searches = nil
	if _, ok := f.Left(now); ok {
		t.Error("no search is finished and there is no budget, but a time left was estimated")
	}
}
