package sweep

import (
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/search/spacefile"
)

// renamed returns options in which present kernel names and values replace those of earlier builds.
func (o *Options) renamed(all []kernels.Kernel) *Options {
	out := *o
	out.Space = o.Space.Renamed(
		func(c ep.Config) ep.Config { return kernels.Rename(all, c) },
		func(c ep.Config) ep.Config { return kernels.Current(all, c) })
	out.Kernels = nil
	for _, name := range o.Kernels {
		now := kernels.Rename(all, ep.Config{Kernel: name}).Kernel
		if !slices.Contains(out.Kernels, now) {
			out.Kernels = append(out.Kernels, now)
		}
	}
	for _, k := range all {
		for _, q := range k.Params {
			if values := namedValues(k, q, o.Kernels); values != nil && out.Space.Values(k.Name, q.Name) == nil {
				out.Space = out.Space.With(k.Name, q.Name, values)
			}
		}
	}
	return &out
}

// namedValues returns the values of the parameter q that the kernels in `names` allow, or nil. The name of k allows all
// values. The name of a kernel that is now k with a fixed value of q allows only this value.
func namedValues(k kernels.Kernel, q kernels.Param, names []string) (out spacefile.Values) {
	every := false
	for _, name := range names {
		former, ok := k.Formerly[name]
		v, fixed := former.Values[q.Name]
		switch {
		case fixed && !slices.Contains(out, v):
			out = append(out, v)
		case name == k.Name || ok && !fixed:
			every = true
		}
	}
	if out != nil && every {
		return q.Values
	}
	return out
}
