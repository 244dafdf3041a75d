package predict

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/diff/fd"
	"gonum.org/v1/gonum/optimize"
	"gonum.org/v1/gonum/stat"

	"github.com/epbench/epbench/kernels/model"
	"github.com/epbench/epbench/tune/ep"
)

// leastShare and mostShare bound the share of a link's bandwidth that kernels can reach inside a host.
const leastShare, mostShare = 0.6, 0.99

// fewRows is the least number of recorded times from which a family is fitted. The times of a family have the same
// design (group of kernels), op, dtype and precision.
const fewRows = 9

const priorWeight = 0.003

// Fitted is a fitted model with its errors.
type Fitted struct {
	File      *model.File
	Residuals []Residual // of times that a fit left out
	Few       []string   // families with too few times
}

// Residual is a recorded time and its prediction.
type Residual struct {
	Row
	Predicted float64 // seconds
}

// Error returns the relative error.
func (m Residual) Error() float64 { return m.Predicted/m.Seconds - 1 }

type familyKey struct {
	design, precision string
	op                ep.Op
	dtype             ep.DType
}

func keyOf(r *Row) familyKey {
	return familyKey{r.Design, r.Problem.Precision.String(), r.Problem.Op, r.Problem.Dispatch}
}

// Parts lists the ways to divide rows into parts. Fit leaves out one part at a time.
var Parts = []struct {
	Name string
	of   func(*Row) string
}{
	{"run", func(r *Row) string { return r.Run }},
	{"shape", func(r *Row) string { return fmt.Sprint(r.Problem.Hidden, r.Problem.Experts, r.Problem.TopK) }},
	{"ranks", func(r *Row) string { return fmt.Sprint(r.Problem.Ranks) }},
}

// PartNames lists the names of Parts.
func PartNames() []string {
	var out []string
	for _, p := range Parts {
		out = append(out, p.Name)
	}
	return out
}

// Fit fits the coefficients of every family. `part` is a name from PartNames. Each residual comes from a fit that left
// out the residual's part.
func Fit(facts *model.File, rows []Row, part string) (*Fitted, error) {
	at := slices.Index(PartNames(), part)
	if at < 0 {
		return nil, fmt.Errorf("unknown part %.20q, use one of %s", part, strings.Join(PartNames(), ", "))
	}
	link, err := facts.Link("", model.Host)
	if err != nil {
		return nil, err
	}
	out := &Fitted{File: &model.File{Schema: model.Schema, Links: facts.Links, SMs: smsOfAll(rows)}}
	for _, group := range families(rows) {
		if len(group) < fewRows {
			k := keyOf(&group[0])
			out.Few = append(out.Few, fmt.Sprintf("%s %s %s %s: %d times", k.design, k.op, k.dtype, k.precision, len(group)))
			continue
		}
		out.family(group, link, Parts[at].of)
	}
	if len(out.File.Families) == 0 {
		return nil, fmt.Errorf("no family has %d recorded times; give more runs", fewRows)
	}
	total := sumUp(out.Residuals, Parts[at].of)
	out.File.LeftOutBy, out.File.LeftOut, out.File.Recorded = part, &total, parts(rows, Parts[0].of)
	return out, out.checkShare(link)
}

func smsOfAll(rows []Row) int {
	most := 0.0
	for _, r := range rows {
		most = max(most, r.Call.SMs)
	}
	return int(most)
}

func families(rows []Row) [][]Row {
	var out [][]Row
	at := map[familyKey]int{}
	for _, r := range rows {
		k := keyOf(&r)
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k], out = i, append(out, nil)
		}
		out[i] = append(out[i], r)
	}
	slices.SortFunc(out, func(a, b []Row) int {
		x, y := keyOf(&a[0]), keyOf(&b[0])
		return cmp.Or(cmp.Compare(y.design, x.design), cmp.Compare(slices.Index(ep.Ops(), x.op), slices.Index(ep.Ops(), y.op)),
			cmp.Compare(x.dtype, y.dtype), cmp.Compare(x.precision, y.precision))
	})
	return out
}

func (f *Fitted) family(rows []Row, link model.Link, of func(*Row) string) {
	whole := fit(rows, link, start())
	var residuals []Residual
	for _, part := range parts(rows, of) {
		var kept, left []Row
		for _, r := range rows {
			if of(&r) == part {
				left = append(left, r)
			} else {
				kept = append(kept, r)
			}
		}
		if len(kept) < fewRows {
			continue
		}
		c := fit(kept, link, whole)
		for _, r := range left {
			residuals = append(residuals, Residual{r, model.Predict(c, r.Call, link, model.Link{}).Seconds})
		}
	}
	k := keyOf(&rows[0])
	f.Residuals = append(f.Residuals, residuals...)
	f.File.Families = append(f.File.Families, model.Family{Design: k.design, Op: k.op, Dispatch: k.dtype, Precision: k.precision,
		Rows: len(rows), LeftOut: sumUp(residuals, of), Costs: rounded(whole)})
}

func parts(rows []Row, of func(*Row) string) []string {
	var out []string
	for i := range rows {
		out = append(out, of(&rows[i]))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func sumUp(residuals []Residual, of func(*Row) string) model.Error {
	var rows []Row
	var errs []float64
	for _, m := range residuals {
		rows, errs = append(rows, m.Row), append(errs, math.Abs(m.Error()))
	}
	e := model.Error{Parts: len(parts(rows, of)), Rows: len(errs)}
	if len(errs) == 0 {
		return e
	}
	slices.Sort(errs)
	e.Median, e.P95 = roundTo4(stat.Quantile(0.5, stat.Empirical, errs, nil)), roundTo4(stat.Quantile(0.95, stat.Empirical, errs, nil))
	e.Worst = roundTo4(errs[len(errs)-1])
	return e
}

func roundTo4(v float64) float64 {
	if v == 0 {
		return 0
	}
	unit := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*unit) / unit
}

func rounded(c model.Coefficients) model.Coefficients {
	x := c.Vector()
	for i := range x {
		x[i] = roundTo4(x[i])
	}
	return model.FromVector(x)
}

func start() model.Coefficients {
	return model.Coefficients{Fixed: 3, Expert: 0.005, Doubling: 0.5, LinkShare: 0.85, Local: 0.3, Own: 0.3, Row: 1e-4, SM: 20, Sharpness: 0.3}
}

// least is the smallest value of a coefficient. The fit uses logarithms of coefficients, and 0 has none.
const least = 1e-6

// fit minimizes the mean of tanh^2(log(predicted/recorded)), plus a penalty for coefficients far from start(). The tanh
// bounds the weight of outliers.
func fit(rows []Row, link model.Link, from model.Coefficients) model.Coefficients {
	prior := toUnbounded(start())
	loss := func(x []float64) float64 {
		c := fromUnbounded(x)
		var sum float64
		for i := range x {
			sum += priorWeight * (x[i] - prior[i]) * (x[i] - prior[i])
		}
		for i := range rows {
			r := &rows[i]
			e := math.Tanh(math.Log(model.Predict(c, r.Call, link, model.Link{}).Seconds / r.Seconds))
			sum += e * e
		}
		return sum / float64(len(rows))
	}
	gradient := func(g, x []float64) { fd.Gradient(g, loss, x, &fd.Settings{Formula: fd.Central, Step: 1e-5}) }
	result, err := optimize.Minimize(optimize.Problem{Func: loss, Grad: gradient}, toUnbounded(from),
		&optimize.Settings{GradientThreshold: 1e-7, MajorIterations: 150, Converger: &optimize.FunctionConverge{Relative: 1e-6, Iterations: 8}}, &optimize.BFGS{})
	if result == nil || err != nil && !(result.F < loss(toUnbounded(from))) {
		return from
	}
	return fromUnbounded(result.X)
}

const shareAt = 3 // index in Coefficients.Vector

func toUnbounded(c model.Coefficients) []float64 {
	x := c.Vector()
	for i, v := range x {
		if i == shareAt {
			x[i] = math.Log(v / (1 - v))
			continue
		}
		x[i] = math.Log(max(v, least))
	}
	return x
}

func fromUnbounded(x []float64) model.Coefficients {
	y := make([]float64, len(x))
	for i, v := range x {
		if i == shareAt {
			y[i] = 1 / (1 + math.Exp(-v))
			continue
		}
		y[i] = math.Exp(min(max(v, math.Log(least)), 12))
	}
	return model.FromVector(y)
}

func (f *Fitted) checkShare(link model.Link) error {
	var shares []float64
	for _, g := range f.File.Families {
		if g.Design == Tuned {
			shares = append(shares, g.Costs.LinkShare)
		}
	}
	if len(shares) == 0 {
		return nil
	}
	slices.Sort(shares)
	mid := stat.Quantile(0.5, stat.Empirical, shares, nil)
	if mid < leastShare || mid > mostShare {
		return errors.New(contradicted(link, mid))
	}
	return nil
}

func contradicted(link model.Link, share float64) string {
	return fmt.Sprintf("links: gb_per_s of %s: %v contradicts the recorded runs, which reach %.0f %% of it, while kernels can reach %.0f to %.0f %%; correct this bandwidth",
		link.Name, link.Bandwidth.Value, 100*share, 100*leastShare, 100*mostShare)
}
