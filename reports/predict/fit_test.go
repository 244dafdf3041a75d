package predict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels/model"
	"github.com/epbench/epbench/tune/ep"
)

var truth = model.Coefficients{Fixed: 2.5, Expert: 0.006, Doubling: 0.7, LinkShare: 0.85, Local: 0.15, Own: 0.4, Row: 1e-4, SM: 20, Sharpness: 0.1}

// invented computes times of 8 runs from `truth`, with the relative standard deviation `noise`.
func invented(link model.Link, noise float64) []Row {
	r := rand.New(rand.NewPCG(1, 2))
	var rows []Row
	for run := range 8 {
		for _, tokens := range []float64{1, 8, 32, 128, 1024, 4096, 8192} {
			ranks := []float64{2, 4}[run%2]
			hidden := []float64{2048, 4096, 7168}[run%3]
			bytes := hidden + 512
			call := model.Call{Host: tokens * 0.9 * ranks * bytes / 2, Rows: tokens * 8, Expert: tokens * 8 * bytes, Own: 2 * tokens * hidden, LocalExperts: 256 / ranks, HostRanks: ranks, SMs: 132}
			s := model.Predict(truth, call, link, model.Link{}).Seconds * math.Exp(noise*r.NormFloat64())
			rows = append(rows, Row{Run: fmt.Sprint("run", run), Design: Tuned, Problem: ep.Problem{Op: ep.Dispatch, Dispatch: ep.FP8}, Seconds: s, Call: call})
		}
	}
	return rows
}

func links(t *testing.T) *model.File {
	f, err := model.Links()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFitFindsTheTruth: with 2 % noise, the median error for runs that the fit did not see is below 3 %.
func TestFitFindsTheTruth(t *testing.T) {
	facts := links(t)
	f, err := Fit(facts, invented(facts.Links[0], 0.02), "run")
	if err != nil {
		t.Fatal(err)
	}
	e := f.File.LeftOut
	if e.Parts != 8 || e.Rows != 56 || e.Median > 0.03 || e.P95 > 0.08 {
		t.Errorf("errors of left-out runs: %+v", e)
	}
	if share := f.File.Families[0].Costs.LinkShare; math.Abs(share-truth.LinkShare) > 0.08 {
		t.Errorf("link share %v, want %v", share, truth.LinkShare)
	}
}

// TestFitFindsAnInventedFact: the error names a link whose bandwidth contradicts the times.
func TestFitFindsAnInventedFact(t *testing.T) {
	rows := invented(links(t).Links[0], 0.02)
	for _, wrong := range []float64{900, 225} {
		facts := links(t)
		facts.Links[0].Bandwidth.Value = wrong
		if _, err := Fit(facts, rows, "run"); err == nil || !strings.Contains(err.Error(), "nvlink4") || !strings.Contains(err.Error(), "contradicts") {
			t.Errorf("%v GB/s: %v", wrong, err)
		}
	}
}

// TestLeftOutIsLeftOut: the fit does not use the run that it predicts.
func TestLeftOutIsLeftOut(t *testing.T) {
	facts := links(t)
	rows := invented(facts.Links[0], 0.02)
	for i := range rows {
		if rows[i].Run == "run3" {
			rows[i].Seconds *= 3
		}
	}
	f, err := Fit(facts, rows, "run")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range f.Residuals {
		if m.Run == "run3" && m.Error() > -0.5 {
			t.Errorf("run3 %v s is predicted as %v: it was not left out", m.Seconds, m.Predicted)
		}
	}
}

func TestSameRowsSameFit(t *testing.T) {
	facts := links(t)
	rows := invented(facts.Links[0], 0.05)
	var got [2]string
	for i := range got {
		f, err := Fit(facts, rows, "run")
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := f.File.Write(&b); err != nil {
			t.Fatal(err)
		}
		got[i] = b.String()
	}
	if got[0] != got[1] {
		t.Error("two fits of the same rows differ")
	}
}

func TestTooFewTimes(t *testing.T) {
	facts := links(t)
	if _, err := Fit(facts, invented(facts.Links[0], 0)[:5], "run"); err == nil || !strings.Contains(err.Error(), "give more runs") {
		t.Errorf("got %v", err)
	}
}

func TestReaderReadsRecordedRuns(t *testing.T) {
	var r Reader
	for range 2 {
		for _, dir := range []string{"h200x2-deepseek-v3", "h200x4-deepseek-v3", "cpu-sweep"} {
			if err := r.Read("../../testdata/runs/"+dir, dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(r.Skipped) != 2 {
		t.Errorf("skipped %v", r.Skipped)
	}
	ranks := map[int]int{}
	for _, row := range r.Rows {
		ranks[row.Problem.Ranks]++
		if row.Seconds <= 0 || row.Call.Host <= 0 || row.Design != Tuned && row.Design != Default {
			t.Errorf("%+v", row)
		}
	}
	if ranks[2] == 0 || ranks[4] == 0 {
		t.Errorf("numbers of times by rank count: %v, want some for 2 and 4 ranks", ranks)
	}
}

func TestPartsAreLeftOut(t *testing.T) {
	facts := links(t)
	rows := invented(facts.Links[0], 0.02)
	for i := range rows {
		rows[i].Problem.Ranks = int(rows[i].Call.HostRanks)
	}
	f, err := Fit(facts, rows, "ranks")
	if err != nil {
		t.Fatal(err)
	}
	if e := f.File.LeftOut; e.Parts != 2 || e.Rows != 56 || e.Median > 0.06 {
		t.Errorf("left out: %+v", e)
	}
	if _, err := Fit(facts, rows, "week"); err == nil || !strings.Contains(err.Error(), "run, shape, ranks") {
		t.Errorf("got %v", err)
	}
}
