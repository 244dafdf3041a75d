package kernels

import (
	"maps"
	"slices"

	"github.com/epbench/epbench/tune/ep"
)

// Current rewrites a config of an earlier build for this build. A config of a former kernel
// becomes a config of the kernel that replaced it. A parameter that the earlier build did not
// have gets its value Before. In a pair, dispatch and combine are rewritten. A config of an
// unknown kernel is returned unchanged.
func Current(all []Kernel, c ep.Config) ep.Config {
	if dispatch, combine, err := ep.Split(c); err == nil {
		return ep.Join(Current(all, dispatch), Current(all, combine))
	}
	at := slices.IndexFunc(all, func(k Kernel) bool {
		_, former := k.Formerly[c.Kernel]
		return k.Name == c.Kernel || former
	})
	if at < 0 {
		return c
	}
	k := all[at]
	out := ep.Config{Kernel: k.Name, Values: maps.Clone(k.Formerly[c.Kernel].Values)}
	if out.Values == nil {
		out.Values = map[string]ep.Value{}
	}
	maps.Copy(out.Values, c.Values)
	for _, q := range k.Params {
		if _, ok := out.Values[q.Name]; !ok && q.Before != "" {
			out.Values[q.Name] = q.Before
		}
	}
	return out
}
