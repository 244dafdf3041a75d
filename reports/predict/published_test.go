package predict

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels/model"
)

func recorded(t *testing.T) *model.File {
	f, err := model.Load("../../testdata/models/h200.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// compared predicts the published times of a library, with `bandwidth` GB/s for the link ndr400.
func compared(t *testing.T, library string, bandwidth float64) []ComparedFigure {
	f := recorded(t)
	for i := range f.Links {
		if f.Links[i].Name == "ndr400" {
			f.Links[i].Bandwidth.Value = bandwidth
		}
	}
	rows, err := PublishedRows()
	if err != nil {
		t.Fatal(err)
	}
	rows = slices.DeleteFunc(rows, func(r Published) bool { return r.Library != library })
	all, missing, err := Compare(f, rows)
	if err != nil || len(missing) > 0 || len(all) == 0 {
		t.Fatalf("%d rows, missing %v, %v", len(all), missing, err)
	}
	return all
}

func worst(all []ComparedFigure) float64 {
	most := 0.0
	for _, b := range all {
		most = max(most, math.Abs(b.Error()))
	}
	return most
}

// TestPublishedRows: DeepEP's low-latency kernels are predicted within 25 %, unless the bandwidth is wrong by a factor
// of 2.
func TestPublishedRows(t *testing.T) {
	if e := worst(compared(t, "DeepEP V1 LL", 50)); e > 0.25 {
		t.Errorf("largest error %.2f", e)
	}
	if e := worst(compared(t, "DeepEP V1 LL", 100)); e < 0.4 {
		t.Errorf("100 GB/s: the largest error is %.2f, want more than 0.4", e)
	}
	slow := compared(t, "DeepEP V1 LL", 25)
	if !slices.ContainsFunc(slow, ComparedFigure.Impossible) || len(CompareTable(slow).Warnings) == 0 {
		t.Error("25 GB/s: no published time is called impossible")
	}
}

// TestBandwidthsBecomeTimes: 8,192 tokens of 7,392 bytes go to 1.992 hosts on average, at 90 GB/s.
func TestBandwidthsBecomeTimes(t *testing.T) {
	b := compared(t, "DeepEP V2", 50)[0]
	if want := 8192.0 * 7392 * 1.992 / 90e9; math.Abs(b.Seconds/want-1) > 0.005 {
		t.Errorf("%v s, want %v", b.Seconds, want)
	}
}

func TestPublishedNamesTheField(t *testing.T) {
	row := `{library: a, op: dispatch, ranks: 16, per_host: 8, hidden: 128, experts: 16, topk: 2, tokens: 8, dtype: fp8, precision: full, routing: uniform, transport: host, host: x, network: y, us: 3, source: s, date: d}`
	for _, c := range []struct{ from, to, want string }{
		{"us: 3", "us: 3, gb_per_s_of_hosts: 4", "exactly one figure"},
		{"us: 3", "us: 0", "exactly one figure"},
		{"source: s", `source: ""`, "source, date"},
		{"ranks: 16", "ranks: 8", "ranks: 8 ranks fit into one host"},
		{"transport: host", "transport: pigeon", "transport"},
		{"topk: 2", "topk: 20", "topk: 20"},
	} {
		text := "schema: 1\nrows:\n  - " + strings.Replace(row, c.from, c.to, 1)
		if _, err := readPublished([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.to, err, c.want)
		}
	}
	if _, err := readPublished([]byte("schema: 1\nrows:\n  - " + row)); err != nil {
		t.Error(err)
	}
}

// TestTheFileInTheRepository: the errors have a median below 10 % and a 95th percentile below 25 %.
func TestTheFileInTheRepository(t *testing.T) {
	f := recorded(t)
	if e := f.LeftOut; e.Rows < 3900 || e.Median > 0.10 || e.P95 > 0.25 {
		t.Errorf("left out: %+v; want at most 10 %% in the median and 25 %% at the 95th percentile", e)
	}
	var r Reader
	for _, dir := range []string{"h200x2-deepseek-v3", "h200x4-deepseek-v3"} {
		if err := r.Read("../../testdata/runs/"+dir, dir); err != nil {
			t.Fatal(err)
		}
	}
	link, err := f.Link("", model.Host)
	if err != nil {
		t.Fatal(err)
	}
	var misses []Residual
	for _, row := range r.Rows {
		g, err := f.Family(row.Design, row.Problem)
		if err != nil {
			t.Fatal(err)
		}
		misses = append(misses, Residual{row, model.Predict(g.Costs, row.Call, link, model.Link{}).Seconds})
	}
	if e := sumUp(misses, Parts[0].of); e.Rows == 0 || e.Median > 0.10 || e.P95 > 0.25 {
		t.Errorf("runs of the repository: %+v", e)
	}
}
