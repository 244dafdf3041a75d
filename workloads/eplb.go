package workloads

import (
	"cmp"
	"slices"
)

var eplbKind = kind{
	name:   "eplb",
	doc:    "r of the problem's experts are replicas: each takes over a part of a busy expert's load; then all experts and replicas are placed on ranks by load (DeepSeek EPLB)",
	params: []param{{name: "r", min: 0, max: 65535, def: 32, whole: true}},
	build: func(a args, r *recipe) error {
		r.spare = a.int(0)
		r.edits = append(r.edits, func(b *batch) { rebalance(b, a.int(0)) })
		return nil
	},
}

// rebalance maps the experts of a drawn batch to slots. It knows the loads of this batch, while a balancer in
// production knows only past loads.
func rebalance(b *batch, spare int) {
	load := make([]int64, b.Experts)
	for _, rt := range b.ranks {
		for _, e := range rt.Experts {
			if e >= 0 {
				load[e]++
			}
		}
	}
	slot := pack(replicate(load, spare), b.Ranks)
	parallel(len(b.ranks), func(rank int) {
		r := newRNG(b.seed, streamReplica, b.step, uint64(rank))
		ids := b.ranks[rank].Experts
		for i, e := range ids {
			if e < 0 {
				continue
			}
			s := slot[e]
			ids[i] = s[0]
			if len(s) > 1 {
				ids[i] = s[r.below(len(s))]
			}
		}
	})
}

type replica struct {
	expert int
	load   float64
}

func replicate(load []int64, spare int) []replica {
	copies := make([]int, len(load))
	for e := range copies {
		copies[e] = 1
	}
	for range spare {
		hot := 0
		for e := range load {
			if load[e]*int64(copies[hot]) > load[hot]*int64(copies[e]) {
				hot = e
			}
		}
		copies[hot]++
	}
	var out []replica
	for e, n := range copies {
		for range n {
			out = append(out, replica{e, float64(load[e]) / float64(n)})
		}
	}
	return out
}

// pack puts the replicas, heaviest first, onto the least loaded rank with a free slot. pack returns
// the slots of each expert.
func pack(rs []replica, ranks int) [][]int32 {
	slices.SortStableFunc(rs, func(a, b replica) int { return cmp.Compare(b.load, a.load) })
	experts := 0
	for _, r := range rs {
		experts = max(experts, r.expert+1)
	}
	per := len(rs) / ranks
	load, used := make([]float64, ranks), make([]int, ranks)
	slot := make([][]int32, experts)
	for _, r := range rs {
		to := -1
		for i := range ranks {
			if used[i] < per && (to < 0 || load[i] < load[to]) {
				to = i
			}
		}
		slot[r.expert] = append(slot[r.expert], int32(to*per+used[to]))
		load[to] += r.load
		used[to]++
	}
	return slot
}
