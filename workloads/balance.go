package workloads

import (
	"fmt"
	"math/bits"
	"slices"
)

// Placement says which slots hold each expert. A slot has room for the weights of one expert. Every
// rank (GPU) has the same number of slots, numbered from rank 0 on. An expert in several slots has
// replicas.
type Placement struct {
	Ranks int
	Slots [][]int32 // [expert] slots that hold the expert
	next  []int
}

// InBlocks returns the placement in which slot e holds expert e, without replicas.
func InBlocks(experts, ranks int) (*Placement, error) {
	return place(make([]int64, experts), 0, ranks, func([]replica) [][]int32 {
		slots := make([][]int32, experts)
		for e := range slots {
			slots[e] = []int32{int32(e)}
		}
		return slots
	})
}

// Rebalance returns the placement that EPLB, DeepSeek's load balancer, chooses without regard to
// hosts (replicate_experts and balanced_packing in eplb.py of deepseek-ai/EPLB). `load` counts the
// selections of each expert. `redundant` is the number of slots for replicas.
func Rebalance(load []int64, redundant, ranks int) (*Placement, error) {
	return place(load, redundant, ranks, func(rs []replica) [][]int32 { return pack(rs, ranks) })
}

// RebalanceOver returns the placement that EPLB chooses for several hosts
// (rebalance_experts_hierarchical in eplb.py). Experts form groups of equal size. All replicas of a
// group's experts are on one host. Like EPLB, RebalanceOver ignores hosts if `groups` is not a
// multiple of `hosts`.
func RebalanceOver(load []int64, redundant, ranks, hosts, groups int) (*Placement, error) {
	if hosts <= 1 || groups%hosts != 0 {
		return Rebalance(load, redundant, ranks)
	}
	if len(load)%groups != 0 || ranks%hosts != 0 || redundant%hosts != 0 {
		return nil, fmt.Errorf("%d experts in %d groups, %d redundant ones and %d ranks do not divide among %d hosts", len(load), groups, redundant, ranks, hosts)
	}
	return place(load, redundant, ranks, func([]replica) [][]int32 { return packHosts(load, redundant, ranks, hosts, groups) })
}

func packHosts(load []int64, redundant, ranks, hosts, groups int) [][]int32 {
	size := len(load) / groups
	whole := make([]replica, groups)
	for g := range whole {
		whole[g].expert = g
		for _, n := range load[g*size : (g+1)*size] {
			whole[g].load += float64(n)
		}
	}
	slots := make([][]int32, len(load))
	perHost := (len(load) + redundant) / hosts
	for host, of := range groupsOfHosts(pack(whole, hosts), groups/hosts, hosts) {
		var experts []int
		var mine []int64
		for _, g := range of {
			for e := g * size; e < (g+1)*size; e++ {
				experts, mine = append(experts, e), append(mine, load[e])
			}
		}
		for i, local := range pack(replicate(mine, redundant/hosts), ranks/hosts) {
			for _, s := range local {
				slots[experts[i]] = append(slots[experts[i]], int32(host*perHost)+s)
			}
		}
	}
	return slots
}

func groupsOfHosts(slot [][]int32, each, hosts int) [][]int {
	out := make([][]int, hosts)
	for g, at := range slot {
		out[int(at[0])/each] = append(out[int(at[0])/each], g)
	}
	return out
}

func place(load []int64, redundant, ranks int, slots func([]replica) [][]int32) (*Placement, error) {
	if n := len(load) + redundant; ranks < 1 || redundant < 0 || n == 0 || n%ranks != 0 {
		return nil, fmt.Errorf("%d experts and %d redundant ones are %d slots, which do not divide among %d ranks", len(load), redundant, n, ranks)
	}
	return &Placement{Ranks: ranks, Slots: slots(replicate(load, redundant)), next: make([]int, len(load))}, nil
}

// SlotCount returns the number of slots of all ranks.
func (p *Placement) SlotCount() int {
	n := 0
	for _, s := range p.Slots {
		n += len(s)
	}
	return n
}

// Rank returns the rank to which a slot belongs.
func (p *Placement) Rank(slot int32) int { return int(slot) / (p.SlotCount() / p.Ranks) }

// Take returns the slot that serves the next selection of an expert. If an expert has several slots, they take turns.
func (p *Placement) Take(expert int32) int32 {
	s := p.Slots[expert]
	slot := s[p.next[expert]]
	p.next[expert] = (p.next[expert] + 1) % len(s)
	return slot
}

// Copies returns how many experts a rank must fetch to change from placement `from` to p, as the maximum over ranks.
func (p *Placement) Copies(from *Placement) (most int) {
	had := map[[2]int]bool{}
	for e, slots := range from.Slots {
		for _, s := range slots {
			had[[2]int{from.Rank(s), e}] = true
		}
	}
	fetched := make([]int, p.Ranks)
	for e, slots := range p.Slots {
		for _, s := range slots {
			if r := p.Rank(s); !had[[2]int{r, e}] {
				fetched[r]++
			}
		}
	}
	return slices.Max(fetched)
}

// PlacedLoad counts the selections that each slot and rank serves.
type PlacedLoad struct {
	place        *Placement
	Slots        []int64   // [slot] selections
	Ranks        []int64   // [rank] selections
	BetweenRanks [][]int64 // [source rank][serving rank] selections
	Tokens       int64
	// Remote counts a token once for each other host that receives the token.
	Remote int64
	rankOf []int32 // [slot]
	hosts  int
}

func newPlacedLoadOver(p *Placement, hosts int) *PlacedLoad {
	l := &PlacedLoad{place: p, hosts: max(1, hosts), Slots: make([]int64, p.SlotCount()), Ranks: make([]int64, p.Ranks)}
	for range p.Ranks {
		l.BetweenRanks = append(l.BetweenRanks, make([]int64, p.Ranks))
	}
	for s := range l.Slots {
		l.rankOf = append(l.rankOf, int32(s/(len(l.Slots)/p.Ranks)))
	}
	return l
}

// Token adds the selections of one token of the rank `source` to the load. In ids, Token replaces each expert
// by the slot that serves the selection. The id -1 (no expert) stays.
func (l *PlacedLoad) Token(source int, ids []int32) {
	l.Tokens++
	reached := uint64(0)
	for i, e := range ids {
		if e < 0 {
			continue
		}
		s := l.place.Take(e)
		r := l.rankOf[s]
		l.Slots[s]++
		l.Ranks[r]++
		l.BetweenRanks[source][r]++
		reached |= 1 << l.host(int(r))
		ids[i] = s
	}
	l.Remote += int64(bits.OnesCount64(reached &^ (1 << l.host(source))))
}

func (l *PlacedLoad) host(rank int) int { return rank * l.hosts / len(l.Ranks) }

// Expert adds n selections of an expert, divided equally among the expert's slots.
func (l *PlacedLoad) Expert(expert int, n int64) {
	slots := l.place.Slots[expert]
	for i, s := range slots {
		part := n / int64(len(slots))
		if int64(i) < n%int64(len(slots)) {
			part++
		}
		l.Slots[s] += part
		l.Ranks[l.rankOf[s]] += part
	}
}

// MaxMeanSlot returns the largest load of a slot, divided by the mean.
func (l *PlacedLoad) MaxMeanSlot() float64 { return maxMean(floats(l.Slots)) }

// MaxMeanRank returns the largest load of a rank, divided by the mean.
func (l *PlacedLoad) MaxMeanRank() float64 { return maxMean(floats(l.Ranks)) }

// MaxMeanPair returns the largest number of selections from one rank to another rank, divided by
// the mean over such pairs. A single rank gives 1.
func (l *PlacedLoad) MaxMeanPair() float64 {
	var pairs []float64
	for from, row := range l.BetweenRanks {
		for to, n := range row {
			if from != to {
				pairs = append(pairs, float64(n))
			}
		}
	}
	if len(pairs) == 0 {
		return 1
	}
	return maxMean(pairs)
}

// MaxMeanHost returns the largest load of a host, divided by the mean.
func (l *PlacedLoad) MaxMeanHost(hosts int) float64 {
	sums := make([]float64, hosts)
	for r, n := range l.Ranks {
		sums[r*hosts/len(l.Ranks)] += float64(n)
	}
	return maxMean(sums)
}

// Busiest returns the number of selections that the busiest rank serves.
func (l *PlacedLoad) Busiest() int64 { return slices.Max(l.Ranks) }
