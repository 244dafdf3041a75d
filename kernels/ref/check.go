package ref

import (
	"fmt"
	"math"

	"github.com/epbench/epbench/kernels"
)

// Compare says how strictly an output is compared.
type Compare struct {
	// MaxRows is the number of rows compared element by element; 0 means all.
	MaxRows int
	// Ordered requires each source rank's tokens in ascending order.
	Ordered bool
	// Partial says how ranks sum the rows of their experts.
	Partial Partial
	// Bits requires the exact bits of the sum.
	Bits bool
	// Epilogue is the operation on each finished value, or nil.
	Epilogue *Epilogue
}

// Output is the output of dispatch on one rank.
type Output struct {
	RowOffsets   []uint32  // [groups+1], see Delivery
	ExpertIDs    []int32   // [groups], only in layout expert
	SrcInfo      []int32   // [rows, 2]: token; top-k position or source rank
	ScaleOffsets []uint32  // [groups], only with NVFP4
	Ranges       []uint64  // [local experts, ranks], masked: first row << 32 | rows
	Experts      []int32   // [rows, top-k], layouts by rank: local expert or -1
	Weights      []float32 // [rows, top-k], layouts by rank
	MaxRows      int       // capacity of the scale output in rows
	Scales       []byte    // nil for BF16
	// Payload returns one row, valid during the check. One goroutine calls it, with ascending rows.
	Payload func(row int) []byte
	// Expect, unless nil, is called before Payload with all rows to be compared.
	Expect func(rows []int)
}

// Flat returns a Payload function for a buffer of all rows.
func Flat(buf []byte, rowBytes int) func(row int) []byte {
	return func(row int) []byte {
		if (row+1)*rowBytes > len(buf) {
			return nil
		}
		return buf[row*rowBytes : (row+1)*rowBytes]
	}
}

// Merge adds up the comparisons of two ranks and keeps the first difference.
func Merge(a, b kernels.Comparison) kernels.Comparison {
	a.Rows += b.Rows
	a.Wrong += b.Wrong
	a.MaxErr = max(a.MaxErr, b.MaxErr)
	if a.Detail == "" {
		a.Detail = b.Detail
	}
	return a
}

// CheckDispatch compares a rank's output of dispatch with the oracle.
func (o *Oracle) CheckDispatch(rank int, got Output, c Compare) kernels.Comparison {
	j := &judge{rank: rank}
	d := o.Dispatch(rank)
	if !o.checkIndex(j, d, got) {
		return j.result()
	}
	r := rowCheck{o: o, j: j, got: got, c: c, pick: picker(d.rows(), c.MaxRows)}
	for i, g := range d.Groups {
		r.enter(d, i)
		for s := range g.Sources {
			r.segment(s)
		}
		r.padding()
	}
	r.fetch()
	parallel(len(r.picked), func(i int) { r.picked[i].contents(o, got) })
	for _, p := range r.picked {
		j.finding(p.finding)
	}
	return j.result()
}

// picker divides `total` rows into `limit` ranges. The function that it returns chooses one row in each range. If
// `limit` is 0, the function chooses all rows.
func picker(total, limit int) func(row int) bool {
	if limit <= 0 || limit >= total {
		return func(int) bool { return true }
	}
	return func(row int) bool {
		n := row * limit / total
		lo := (n*total + limit - 1) / limit
		hi := ((n+1)*total + limit - 1) / limit
		return row == lo+int(uint32(n)*2654435761>>8)%(hi-lo)
	}
}

// CombinePicks returns the tokens that CheckCombine compares, ascending.
func (o *Oracle) CombinePicks(rank int, c Compare) []int {
	tokens := o.w.Ranks[o.w.BatchRank(rank)].Tokens
	pick := picker(tokens, c.MaxRows)
	var picked []int
	for t := range tokens {
		if pick(t) {
			picked = append(picked, t)
		}
	}
	return picked
}

// CheckCombine compares a rank's combined tokens with the oracle. Several goroutines call `got`, which returns
// [hidden] BF16 bits that stay valid during the check.
func (o *Oracle) CheckCombine(rank int, got func(token int) []uint16, c Compare) kernels.Comparison {
	picked := o.CombinePicks(rank, c)
	findings := make([]finding, len(picked))
	parallel(len(picked), func(i int) { findings[i] = o.checkSum(rank, picked[i], got(picked[i]), c) })
	j := &judge{rank: rank}
	for i, f := range findings {
		j.Rows++
		f.place = i
		j.finding(f)
	}
	return j.result()
}

func (o *Oracle) checkSum(rank, token int, got []uint16, c Compare) (f finding) {
	if len(got) != o.w.Problem.Hidden {
		f.wrong = fmt.Sprintf("token %d: %d columns, want %d", token, len(got), o.w.Problem.Hidden)
		return f
	}
	bounds := o.boundsOf(rank, token, c)
	var largest, worst float64
	bad := -1
	for i, bits := range got {
		exact, place := float64(bounds.exact[i]), placeOf(bits)
		largest, worst = max(largest, math.Abs(exact)), max(worst, math.Abs(float64(BF16ToFloat(bits))-exact))
		if (place < bounds.low[i] || place > bounds.high[i]) && bad < 0 {
			bad = i
		}
	}
	f.maxErr = relative(worst, largest)
	if bad >= 0 {
		f.wrong = o.wrongSum(rank, token, bad, got[bad], c)
	}
	return f
}

func (o *Oracle) wrongSum(rank, token, column int, got uint16, c Compare) string {
	s := o.finished(rank, token, c)
	return fmt.Sprintf("token %d column %d: want %#04x (%g), got %#04x (%g)", token, column,
		s.Want[column], s.Exact[column], got, BF16ToFloat(got))
}

func relative(worst, largest float64) float64 {
	if largest > 0 {
		worst /= largest
	}
	if math.IsNaN(worst) {
		return math.MaxFloat64
	}
	return min(worst, math.MaxFloat64)
}
