package record

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/epbench/epbench/tune/ep"
)

func sample(seq, rounds int) Result {
	r := Result{
		Schema: Schema, Seq: seq, Time: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC),
		Problem: ep.Problem{Op: ep.Dispatch, Mode: ep.Eager, Ranks: 4, Nodes: 1, Hidden: 512, Experts: 32,
			TopK: 4, Tokens: 16, MaxTokens: 16, Dispatch: ep.BF16, Combine: ep.BF16},
		Routing: "zipf:1.0", Seed: 1,
		Config: ep.Config{Kernel: "direct", Values: map[string]ep.Value{"blocks": "4", "mode": "fused"}},
		Role:   Candidate, Stage: "race", Block: 2, Status: ep.OK, Clock: "wall", Fold: 8, Round0: 6,
		MaxErr: 0.001, Checked: 128, Wall: 0.25, End: true,
	}
	for i := range rounds {
		row := make([]float64, 4)
		for j := range row {
			row[j] = float64(1034567+1000*i+j) / 1e11
		}
		r.Seconds = append(r.Seconds, row)
	}
	return r
}

func encode(t testing.TB, rs ...Result) []byte {
	var b []byte
	for i := range rs {
		var err error
		if b, err = rs[i].AppendJSON(b); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func TestReaderGivesBackWhatWasWritten(t *testing.T) {
	failed := sample(1, 0)
	failed.Status, failed.Reason = ep.Hang, "rank 2 waited for \"expert\" 7\n\u2028"
	want := []Result{sample(0, 3), failed, sample(2, 1)}
	want[0].Warnings = []string{"outliers: 1 of 3"}
	want[0].MHz = []float64{1980, 1980, 1975, 1980}
	got, torn, err := ReadAll(bytes.NewReader(encode(t, want...)))
	if err != nil || torn != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("ReadAll = %+v, %v, %v\nwant %+v", got, torn, err, want)
	}
}

func TestReaderRoundTripsAnySeconds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := sample(0, 0)
		ranks := rapid.IntRange(1, 9).Draw(t, "ranks")
		for range rapid.IntRange(1, 5).Draw(t, "rounds") {
			r.Seconds = append(r.Seconds, rapid.SliceOfN(rapid.Float64Range(0, 1e300), ranks, ranks).Draw(t, "row"))
		}
		b, err := r.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := ReadAll(bytes.NewReader(b))
		if err != nil || !reflect.DeepEqual(got, []Result{r}) {
			t.Fatalf("%s\nread back as %+v, %v", b, got, err)
		}
	})
}

func TestReaderSkipsOneTornLine(t *testing.T) {
	whole := encode(t, sample(0, 2), sample(1, 2))
	first := bytes.IndexByte(whole, '\n') + 1
	for cut := first + 1; cut < len(whole); cut += 7 {
		got, torn, err := ReadAll(bytes.NewReader(whole[:cut]))
		if err != nil || len(got) != 1 || torn == nil {
			t.Fatalf("cut at %d: %d results, torn %v, err %v", cut, len(got), torn, err)
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	good := strings.TrimSuffix(string(encode(t, sample(0, 1))), "\n")
	for _, c := range []struct{ old, new, want string }{
		{`"schema":2`, `"schema":9`, "schema: 9"},
		{`"schema":2`, `"schema":1`, "an epbench from before v0.1.0 wrote it; sweep again"},
		{`"seq":0`, `"seq":0,"seq":0`, "given twice"},
		{`"seq":0`, `"seq":"0"`, `/seq`},
		{`"seq":0`, `"sequence":0`, "unknown"},
		{`"stage":"race"`, `"stage":7`, `/stage`},
		{`"role":"candidate"`, `"role":"king"`, "role"},
		{`"status":"ok"`, `"status":"fine"`, "status"},
		{`"ranks":4`, `"ranks":0`, "ranks: 0"},
		{`"ranks":4`, `"ranks":4,"ranks":4`, "given twice"},
		{`"ranks":4`, `"rank":4`, "unknown"},
		{`"mode":"fused"`, `"mode":"A B"`, "value"},
		{`"seconds":[[`, `"seconds":[[1,2,3,4],[`, ""},
		{`"seconds":[[`, `"seconds":[[1,2],[`, "ranks"},
		{`"seconds":[[`, `"seconds":[[-1,`, "duration"},
		{`"seconds":[[`, `"seconds":[[1e999,`, "duration"},
		{`"seconds":[[`, `"seconds":[["1",`, "duration"},
		{`"seconds":[[`, `"seconds":[[` + strings.Repeat("1,", ep.MaxRanks+1), "more than"},
		{good, `[]`, "does not fit"},
		{good, `{}`, "schema"},
		{good, good + "{}", "not one JSON object"},
		{good, ``, "not one JSON object"},
		{good, strings.Repeat(`{"problem":`, 9), ""},
		{good, `{"problem":` + strings.Repeat("[", 1e6) + strings.Repeat("]", 1e6) + "}", ""},
	} {
		line := strings.Replace(good, c.old, c.new, 1)
		_, _, err := ReadAll(strings.NewReader(line + "\n" + good + "\n"))
		if c.want == "" && c.old != good {
			if err != nil {
				t.Errorf("%.60s: %v", c.new, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%.60s: error %v, want line 1 and %q", c.new, err, c.want)
		}
	}
}

func TestReaderBoundsALine(t *testing.T) {
	endless := io.MultiReader(strings.NewReader(`{"reason":"`), io.LimitReader(digits{}, 2*maxLine))
	if _, _, err := ReadAll(endless); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Fatalf("an endless line gives %v", err)
	}
}

type digits struct{}

func (digits) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// TestLogBounds: a log of exactly the allowed size is accepted.
func TestLogBounds(t *testing.T) {
	cases := func(n int) (log []byte) {
		for i := range n {
			r := sample(i, 0)
			r.Routing = fmt.Sprint("r", i)
			log, _ = r.AppendJSON(log)
		}
		return log
	}
	rounds := func(n int) []byte {
		r := sample(0, 0)
		r.Seconds = slices.Repeat([][]float64{{0}}, n)
		log, _ := r.AppendJSON(nil)
		return log
	}
	list := func(set func(r *Result)) []byte {
		r := sample(0, 0)
		set(&r)
		log, _ := r.AppendJSON(nil)
		return log
	}
	for name, c := range map[string]struct {
		log  []byte
		want string
	}{
		"most cases":  {cases(maxCases), ""},
		"cases":       {cases(maxCases + 1), "line 20001: more than 20000 problems and routings"},
		"most rounds": {rounds(fewRounds), ""},
		"rounds":      {rounds(fewRounds + 1), "524289 rounds in"},
		"stages":      {list(func(r *Result) { r.LayerStages = make([]ep.StageTime, maxStages+1) }), "entries in mhz"},
		"warnings":    {list(func(r *Result) { r.Warnings = make([]string, maxWarnings+1) }), "entries in mhz"},
		"mhz":         {list(func(r *Result) { r.MHz = make([]float64, ep.MaxRanks+1) }), "entries in mhz"},
	} {
		if _, _, err := ReadAll(bytes.NewReader(c.log)); err == nil != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %.200v", name, err)
		}
	}
}

func TestLongLinesAreRefused(t *testing.T) {
	r := sample(0, 1)
	r.Reason = strings.Repeat("x", maxLine)
	if b, err := r.AppendJSON([]byte("kept")); err == nil || string(b) != "kept" || !strings.Contains(err.Error(), "at most 8388608 can be read again") {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(encode(f, sample(0, 2), sample(1, 0)))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, _, err := ReadAll(bytes.NewReader(b))
		if err != nil || len(got) == 0 {
			return
		}
		again, _, err := ReadAll(bytes.NewReader(encode(t, got...)))
		if err != nil || len(again) != len(got) {
			t.Fatalf("an accepted log cannot be written and read again: %v", err)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	var log []byte
	for i := range 2000 {
		r := sample(i, 10)
		for k := range r.Seconds {
			r.Seconds[k] = append(r.Seconds[k], r.Seconds[k]...)
		}
		r.Config = r.Config.With("blocks", ep.Value(fmt.Sprint(i%40)))
		log, _ = r.AppendJSON(log)
	}
	b.SetBytes(int64(len(log)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := ReadAll(bytes.NewReader(log)); err != nil {
			b.Fatal(err)
		}
	}
}
