package kernels

import (
	"maps"
	"slices"

	"github.com/epbench/epbench/tune/ep"
)

// Current returns a config of an earlier build as this build spells it: a former kernel becomes
// a config of the kernel that replaced it, and a parameter that the config is older than gets
// the value that was in force before. Both halves of a pair change. A config of an unknown kernel
// stays as it is.
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
