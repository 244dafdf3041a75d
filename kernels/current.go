package kernels

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// Former describes a kernel of earlier builds that is now a config of another kernel.
type Former struct {
	Revision int
	Values   map[string]ep.Value // of parameters that the former kernel lacked
	Params   map[string]Respelled
}

// Respelled is a renamed parameter. Values maps its old values to new values.
type Respelled struct {
	Name   string
	Values map[ep.Value]ep.Value
}

// Current rewrites a config of an earlier build. It returns configs of unknown kernels unchanged.
func Current(all []Kernel, c ep.Config) ep.Config {
	return ofHalves(c, func(c ep.Config) ep.Config {
		c = rename(all, c)
		at := slices.IndexFunc(all, func(k Kernel) bool { return k.Name == c.Kernel })
		if at < 0 {
			return c
		}
		for _, q := range all[at].Params {
			if _, ok := c.Values[q.Name]; !ok && q.Before != "" {
				c = c.With(q.Name, q.Before)
			}
		}
		return c
	})
}

// Rename replaces a config of a former kernel by the config of today's kernel that does the same. It does not add
// parameters that later builds introduced.
func Rename(all []Kernel, c ep.Config) ep.Config {
	return ofHalves(c, func(c ep.Config) ep.Config { return rename(all, c) })
}

func rename(all []Kernel, c ep.Config) ep.Config {
	for _, k := range all {
		former, ok := k.Formerly[c.Kernel]
		if !ok {
			continue
		}
		out := ep.Config{Kernel: k.Name, Values: map[string]ep.Value{}}
		maps.Copy(out.Values, former.Values)
		for name, v := range c.Values {
			if now, ok := former.Params[name]; ok {
				name, v = now.Name, cmp.Or(now.Values[v], v)
			}
			out.Values[name] = v
		}
		return out
	}
	return c
}

func ofHalves(c ep.Config, f func(ep.Config) ep.Config) ep.Config {
	if strings.Contains(c.Kernel, "+") {
		if dispatch, combine, err := ep.Split(c); err == nil {
			return ep.Join(f(dispatch), f(combine))
		}
	}
	return f(c)
}
