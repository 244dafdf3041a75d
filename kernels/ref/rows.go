package ref

import (
	"bytes"
	"fmt"
	"math"

	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

type rowCheck struct {
	o    *Oracle
	j    *judge
	got  Output
	c    Compare
	pick func(row int) bool

	group      Group
	firstBlock int // NVFP4: first block of scale rows
	row        int
	inGroup    int // row number in its group
	seen       int // rows so far, without padding
	open       openItems
	picked     []pickedRow
}

// openItems marks the expected rows of one source rank that were not seen yet. A map would be ten times slower.
type openItems struct {
	topK  int
	marks []bool // [tokens, topK+1]
	items []Item
}

func (o *openItems) fill(p ep.Problem, items []Item) {
	o.topK = p.TopK
	if o.marks == nil {
		o.marks = make([]bool, p.MaxTokens*(p.TopK+1))
	}
	for _, it := range o.items {
		o.marks[o.at(it)] = false
	}
	for _, it := range items {
		o.marks[o.at(it)] = true
	}
	o.items = items
}

// at returns the index of an item's mark; the shared expert has K = -1.
func (o *openItems) at(it Item) int { return it.Token*(o.topK+1) + it.K + 1 }

// take closes an item, and reports whether it was open. The item's numbers may be invalid, because a
// kernel wrote them.
func (o *openItems) take(it Item) bool {
	if it.Token < 0 || it.K < -1 || it.K >= o.topK || it.Token >= len(o.marks)/(o.topK+1) || !o.marks[o.at(it)] {
		return false
	}
	o.marks[o.at(it)] = false
	return true
}

type pickedRow struct {
	finding
	expert  string
	source  int
	item    Item
	payload []byte
	row     int
	inGroup int
	block   int // NVFP4: first block of scale rows
}

func (r *rowCheck) enter(d Delivery, i int) {
	r.group, r.row, r.inGroup = d.Groups[i], d.First[i], 0
	if d.ScaleOffsets != nil {
		r.firstBlock = int(d.RowOffsets[i]/128 + d.ScaleOffsets[i])
	}
}

// segment checks that each expected item occurs exactly once.
func (r *rowCheck) segment(s int) {
	items, source, name := r.group.Items[s], r.group.Sources[s], r.expert()
	byRank := r.o.w.Problem.Layout.ByRank()
	r.open.fill(r.o.w.Problem, items)
	for i := range items {
		r.j.place++
		it := items[i]
		switch {
		case byRank:
			it.Token = int(r.got.SrcInfo[2*r.row])
		case r.group.Expert != Shared:
			it = Item{int(r.got.SrcInfo[2*r.row]), int(r.got.SrcInfo[2*r.row+1])}
		}
		switch {
		case !r.open.take(it):
			r.j.wrong("row %d (%s, source %d): src_info says token %d k %d, which is not expected here or occurs twice",
				r.row, name, source, it.Token, it.K)
		case (r.c.Ordered || byRank) && it != items[i]:
			r.j.wrong("row %d (%s, source %d): token %d k %d before token %d k %d",
				r.row, name, source, it.Token, it.K, items[i].Token, items[i].K)
		default:
			if byRank {
				r.checkMetadata(source, it.Token)
			}
			if !r.pick(r.seen) {
				break
			}
			r.j.Rows++
			r.picked = append(r.picked, pickedRow{
				finding: finding{place: r.j.place},
				expert:  name, source: source, item: it,
				row: r.row, inGroup: r.inGroup, block: r.firstBlock,
			})
		}
		r.row, r.inGroup, r.seen = r.row+1, r.inGroup+1, r.seen+1
	}
}

func (r *rowCheck) fetch() {
	if r.got.Expect != nil {
		rows := make([]int, len(r.picked))
		for i, p := range r.picked {
			rows[i] = p.row
		}
		r.got.Expect(rows)
	}
	for i := range r.picked {
		r.picked[i].payload = r.got.Payload(r.picked[i].row)
	}
}

func (r *rowCheck) expert() string {
	switch {
	case r.o.w.Problem.Layout.ByRank():
		return "all experts"
	case r.group.Expert == Shared:
		return "shared expert"
	}
	return fmt.Sprintf("expert %d", r.group.Expert)
}

func (p *pickedRow) where() string {
	return fmt.Sprintf("row %d (%s, source %d token %d k %d)", p.row, p.expert, p.source, p.item.Token, p.item.K)
}

func (p *pickedRow) contents(o *Oracle, out Output) {
	l := o.Encoding()
	want := o.Token(p.source, p.item.Token)
	got := Row{p.payload, o.scalesAt(out, p.row, p.inGroup, p.block)}
	if len(got.Payload) != l.Payload || len(got.Scales) != len(want.Scales) {
		p.wrong = fmt.Sprintf("%s: %d payload and %d scale bytes, want %d and %d",
			p.where(), len(got.Payload), len(got.Scales), l.Payload, len(want.Scales))
		return
	}
	if bytes.Equal(got.Payload, want.Payload) && bytes.Equal(got.Scales, want.Scales) {
		return
	}
	p.wrong = p.where() + ": " + difference(l, want, got)
	p.maxErr = o.rowError(want, got)
}

func (r *rowCheck) scales() []byte {
	return r.o.scalesAt(r.got, r.row, r.inGroup, r.firstBlock)
}

// padding checks that the NVFP4 scales of padding rows are zero.
func (r *rowCheck) padding() {
	l := r.o.Encoding()
	if l.DType != ep.NVFP4 {
		return
	}
	r.j.place++
	for ; r.inGroup%dtype.ScaleBlockRows != 0; r.inGroup++ {
		for g, s := range r.scales() {
			if s != 0 {
				r.j.wrong("%s: scale %d of padding row %d is %#02x, want 0", r.expert(), g, r.inGroup, s)
				return
			}
		}
	}
}

// rowError returns the largest error of a dequantized value, relative to the largest magnitude of `want`.
func (o *Oracle) rowError(want, got Row) float64 {
	p := o.w.Problem
	a := Dequantize(p.Dispatch, want, p.Hidden, o.global)
	b := Dequantize(p.Dispatch, got, p.Hidden, o.global)
	var worst, largest float64
	for i := range a {
		worst = max(worst, math.Abs(float64(a[i])-float64(b[i])))
		largest = max(largest, math.Abs(float64(a[i])))
	}
	return relative(worst, largest)
}

func difference(l dtype.Encoding, want, got Row) string {
	for g, n := 0, l.ScaleBytes; g < l.Scales; g++ {
		if a, b := want.Scales[g*n:g*n+n], got.Scales[g*n:g*n+n]; !bytes.Equal(a, b) {
			return fmt.Sprintf("scale %d: want %x, got %x", g, a, b)
		}
	}
	for c := range l.Hidden {
		if a, b := l.Code(want.Payload, c), l.Code(got.Payload, c); a != b {
			return fmt.Sprintf("column %d: want code %#02x, got %#02x", c, a, b)
		}
	}
	return ""
}
