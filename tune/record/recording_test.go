package record

import (
	"bytes"
	"compress/gzip"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/bounded"
	"github.com/epbench/epbench/tune/ep"
)

// recorded returns a run and its log of two blocks.
func recorded() (*Run, []Result) {
	p := ep.Problem{Op: ep.Dispatch, Mode: ep.Graph, Ranks: 2, Nodes: 1, Hidden: 512, Experts: 8, TopK: 2, Tokens: 4, MaxTokens: 4, Dispatch: ep.BF16, Combine: ep.BF16}
	var log []Result
	for block := range 2 {
		for i, role := range []Role{Default, Twin, Candidate, Candidate} {
			r := Result{Problem: p, Routing: "uniform", Config: ep.Config{Kernel: "k"}.With("n", ep.Value('1'+rune(max(i-1, 0)))), Role: role, Status: ep.OK,
				Seconds: [][]float64{{1e-5, 2e-5}, {3e-5, 1e-5 + float64(i)*1e-8}}, Round0: 2 * block, Wall: 0.008, End: i == 3}
			if block == 0 {
				r.Wall = 0.108
			}
			log = append(log, r)
		}
	}
	log[7].Status, log[7].Seconds = ep.Hang, nil
	log[4].Wall = 0.006
	return &Run{Tool: "t", Searches: []Search{{Problem: p, Routing: "uniform", Legal: 3, Decision: Decision{Verdict: Same}}}}, log
}

func TestRecordingKeepsRoundsAndPace(t *testing.T) {
	run, log := recorded()
	all := Recordings(run, log)
	if len(all) != 1 || len(all[0].Points) != 3 || !all[0].Complete() {
		t.Fatalf("%+v", all)
	}
	var b, again bytes.Buffer
	if _, err := all[0].WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	all[0].WriteTo(&again)
	if !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Error("writing the same recording twice gives different bytes")
	}
	r, err := readRecording(&b, bounded.New(0))
	if err != nil {
		t.Fatal(err)
	}
	first, seconds := SecondsOf(r.Points[0].Rounds[1])
	if first != 2 || len(seconds) != 2 || math.Abs(seconds[0]/2e-5-1) > 1e-9 || math.Abs(seconds[1]/3e-5-1) > 1e-9 {
		t.Errorf("round %d, %v: want the slowest rank of rounds 2 and 3", first, seconds)
	}
	if r.Points[0].Role != Default || r.Points[2].Status != ep.Hang || r.Search.Problem != run.Searches[0].Problem {
		t.Errorf("%+v", r.Points)
	}
	if p := r.Search.Pace; math.Abs(p.Sample-0.001) > 1e-9 || math.Abs(p.Config-0.1/3) > 1e-9 {
		t.Errorf("pace %+v, want 1 ms per sample and 33 ms per config", p)
	}
}

func TestRecordingIsReadStrictly(t *testing.T) {
	run, log := recorded()
	r := Recordings(run, log)[0]
	for want, change := range map[string]func(){
		"schema": func() { r.Schema = 99 },
		"line 2: rounds[0][1]: -1 is not a whole": func() { r.Schema = Schema; r.Points[0].Rounds[0][1] = -1 },
	} {
		change()
		var b bytes.Buffer
		r.WriteTo(&b)
		if _, err := readRecording(&b, bounded.New(0)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		r.Points[0].Rounds[0][1] = 1
	}
	if _, err := readRecording(strings.NewReader("none"), bounded.New(0)); err == nil {
		t.Error("a text was read as a recording")
	}
}

func TestRetriedConfigIsRight(t *testing.T) {
	p := ep.Problem{Op: ep.Dispatch}
	c := ep.Config{Kernel: "k", Values: map[string]ep.Value{"a": "1"}}
	line := Result{Problem: p, Routing: "uniform", Config: c, Role: Candidate, End: true}
	failed, again := line, line
	failed.Stage, failed.Status = StageScreen, ep.Crash
	again.Stage, again.Status, again.Seconds, again.Round0 = StageRetry, ep.OK, [][]float64{{1e-6}, {1e-6}}, 10
	out := Recordings(&Run{Searches: []Search{{Problem: p, Routing: "uniform"}}}, []Result{failed, again})
	if got := out[0].Points[0]; got.Status != ep.OK || len(got.Rounds) != 1 {
		t.Errorf("status %s, rounds %v", got.Status, got.Rounds)
	}
}

func TestRecordingBombs(t *testing.T) {
	r := Recordings(recorded())[0]
	var head bytes.Buffer
	if _, err := r.WriteTo(&head); err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(&head)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	point := bytes.Replace(lines[1], []byte(`"rounds":[`), append([]byte(`"rounds":[`), bytes.Repeat([]byte("[0,1],"), 200_000)...), 1)
	for name, c := range map[string]struct {
		line []byte
		n    int
		want string
	}{
		"points": {point, 4, "points: more memory than"},
		"spaces": {append(bytes.Repeat([]byte(" "), 1<<20), '\n'), 150, "unpacks to more than"},
	} {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		w.Write(lines[0])
		for range c.n {
			if name == "spaces" {
				w.Write(c.line[:1<<20])
				w.Write(lines[1])
			} else {
				w.Write(c.line)
			}
		}
		w.Close()
		if _, err := readRecording(&b, bounded.New(0)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
