package ref

import (
	"math"
	"slices"

	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

// bySource returns a group for each source rank, with each token once.
func (o *Oracle) bySource(rank int) []Group {
	p := o.w.Problem
	var groups []Group
	for s := range p.Ranks {
		var items []Item
		for t := range o.w.Ranks[s].Tokens {
			if slices.ContainsFunc(o.selected(s, t), func(e int32) bool { return o.isOn(e, rank) }) {
				items = append(items, Item{t, -1})
			}
		}
		groups = append(groups, Group{s, []int{s}, [][]Item{items}})
	}
	return groups
}

func (o *Oracle) selected(source, token int) []int32 {
	k := o.w.Problem.TopK
	return o.w.Ranks[source].Experts[token*k : (token+1)*k]
}

// isOn reports whether an expert is on a rank. The expert -1 is on no rank.
func (o *Oracle) isOn(expert int32, rank int) bool {
	return expert >= 0 && int(expert)/o.w.Problem.LocalExperts() == rank
}

func (r *rowCheck) checkMetadata(source, token int) {
	p := r.o.w.Problem
	if got := int(r.got.SrcInfo[2*r.row+1]); got != source {
		r.j.wrong("row %d (source %d): src_info says source %d", r.row, source, got)
		return
	}
	for k, e := range r.o.selected(source, token) {
		expert, weight := int32(-1), float32(0)
		if r.o.isOn(e, r.j.rank) {
			expert, weight = e%int32(p.LocalExperts()), r.o.w.Ranks[source].Weights[token*p.TopK+k]
		}
		at := r.row*p.TopK + k
		if r.got.Experts[at] != expert || math.Float32bits(r.got.Weights[at]) != math.Float32bits(weight) {
			r.j.wrong("row %d (source %d, token %d, k %d): want local expert %d of weight %g, got %d of %g",
				r.row, source, token, k, expert, weight, r.got.Experts[at], r.got.Weights[at])
			return
		}
	}
}

// checkIndex checks the row positions. If it returns false, the rows cannot be checked.
func (o *Oracle) checkIndex(j *judge, d Delivery, got Output) bool {
	if !checkSizes(j, o.w.Problem, d, got) {
		return false
	}
	for i, want := range d.RowOffsets {
		if got.RowOffsets[i] != want {
			j.wrong("row_offsets[%d]: want %d, got %d", i, want, got.RowOffsets[i])
		}
	}
	switch o.w.Problem.Layout.Kind() {
	case "expert":
		checkGroups(j, d, got)
	case "masked":
		checkRanges(j, d, got)
	}
	return j.Wrong == 0
}

func checkSizes(j *judge, p ep.Problem, d Delivery, got Output) bool {
	selections := 0
	if p.Layout.ByRank() {
		selections = d.End * p.TopK
	}
	switch {
	case len(got.RowOffsets) != len(d.RowOffsets):
		j.wrong("row_offsets: %d entries, want %d", len(got.RowOffsets), len(d.RowOffsets))
	case p.Layout.Kind() == "expert" && len(got.ExpertIDs) != len(d.Groups):
		j.wrong("expert_ids: %d entries, want %d", len(got.ExpertIDs), len(d.Groups))
	case p.Layout.Kind() == "masked" && len(got.Ranges) != len(d.Groups)*p.Ranks:
		j.wrong("ranges: %d entries, want %d", len(got.Ranges), len(d.Groups)*p.Ranks)
	case len(got.SrcInfo) < 2*d.End:
		j.wrong("src_info: %d rows, want %d", len(got.SrcInfo)/2, d.End)
	case len(got.Experts) < selections || len(got.Weights) < selections:
		j.wrong("experts and weights: %d and %d, want %d", len(got.Experts), len(got.Weights), selections)
	}
	return j.Wrong == 0
}

func checkGroups(j *judge, d Delivery, got Output) {
	for i := range d.Groups {
		if got.ExpertIDs[i] != int32(i) {
			j.wrong("expert_ids[%d]: want %d, got %d", i, i, got.ExpertIDs[i])
		}
		if got.ScaleOffsets != nil && got.ScaleOffsets[i] != d.ScaleOffsets[i] {
			j.wrong("scale_offsets[%d]: want %d, got %d", i, d.ScaleOffsets[i], got.ScaleOffsets[i])
		}
	}
}

func checkRanges(j *judge, d Delivery, got Output) {
	for e, g := range d.Groups {
		first := 0
		for s, items := range g.Items {
			want := uint64(first)<<32 | uint64(len(items))
			if have := got.Ranges[e*len(g.Items)+s]; have != want {
				j.wrong("ranges[%d, %d]: want %d rows from %d on, got %d from %d", e, s, len(items), first, have&0xffffffff, have>>32)
			}
			first += len(items)
		}
	}
}

func (o *Oracle) scalesAt(out Output, row, inGroup, block int) []byte {
	l, p := o.Encoding(), o.w.Problem
	if l.DType != ep.FP8 {
		return ScalesOf(l, out.Scales, row, inGroup, block, out.MaxRows)
	}
	scales := make([]byte, 0, 4*l.Scales)
	first, stride := dtype.FP8Scales(p, out.MaxRows, row)
	for g := range l.Scales {
		if at := 4 * (first + g*stride); at+4 <= len(out.Scales) {
			scales = append(scales, out.Scales[at:at+4]...)
		}
	}
	return scales
}
