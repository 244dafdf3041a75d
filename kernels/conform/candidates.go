package conform

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// candidates returns the configs to test. These are the default config, combinations of the parameters whose values are
// words, and one config for each value of the other parameters.
func candidates(k kernels.Kernel, m ep.Machine, c Case) []ep.Config {
	base := k.DefaultConfig(m, c.Problem)
	if k.Check(m, c.Problem, base) != nil {
		return nil
	}
	out := []ep.Config{base}
	seen := map[string]bool{base.Key(): true}
	add := func(cfg ep.Config) {
		if !seen[cfg.Key()] && k.Check(m, c.Problem, cfg) == nil {
			seen[cfg.Key()] = true
			out = append(out, cfg)
		}
	}
	for _, cfg := range drawn(wordCombinations(k, base), c.Name, c.Words) {
		add(cfg)
	}
	for i, q := range k.Params {
		if isWord(q) {
			continue
		}
		for j, v := range q.Values {
			add(out[(i+j)%len(out)].With(q.Name, v))
		}
	}
	if c.Configs > 0 {
		return append(out[:1:1], drawn(out[1:], c.Name, c.Configs-1)...)
	}
	return out
}

func isWord(q kernels.Param) bool {
	_, number := q.Default.Int()
	return !number
}

func wordCombinations(k kernels.Kernel, base ep.Config) []ep.Config {
	words := slices.DeleteFunc(slices.Clone(k.Params), func(q kernels.Param) bool { return !isWord(q) })
	var out []ep.Config
	kernels.Each(base, words, func(c ep.Config) {
		out = append(out, ep.Config{Kernel: c.Kernel, Values: maps.Clone(c.Values)})
	})
	return out
}

// drawn returns at most n of the configs. A hash of `salt` and the config decides which.
func drawn(all []ep.Config, salt string, n int) []ep.Config {
	order := make(map[string]uint64, len(all))
	for _, c := range all {
		h := fnv.New64a()
		h.Write([]byte(salt + "\n" + c.Key()))
		order[c.Key()] = h.Sum64()
	}
	slices.SortFunc(all, func(a, b ep.Config) int { return cmp.Compare(order[a.Key()], order[b.Key()]) })
	return all[:min(n, len(all))]
}
