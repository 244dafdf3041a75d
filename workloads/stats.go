package workloads

import (
	"encoding/json"
	"errors"
)

// Stats holds measures of a drawn routing. If experts have replicas (+eplb in the spec of the routing), each replica
// counts as an expert.
type Stats struct {
	Tokens           int64   `json:"tokens"`     // a token that all ranks have (SkipA2A) counts once
	Selections       int64   `json:"selections"` // without masked selections
	Masked           int64   `json:"masked"`
	Gini             float64 `json:"gini"`
	CV               float64 `json:"cv"`                // standard deviation / mean of expert loads
	MaxMeanExpert    float64 `json:"max_mean_expert"`   // largest / mean expert load
	MaxMeanRank      float64 `json:"max_mean_rank"`     // largest / mean rank load
	MaxMeanPair      float64 `json:"max_mean_pair"`     // largest / mean number of selections, over pairs of source rank and expert
	DistinctRanks    float64 `json:"distinct_ranks"`    // mean number of ranks that a token visits
	LocalShare       float64 `json:"local_share"`       // share of selections whose expert is on the token's own rank
	Entropy          float64 `json:"entropy"`           // of expert loads, in bits
	EffectiveExperts float64 `json:"effective_experts"` // 2^entropy
	Top20Share       float64 `json:"top20_share"`       // share of selections that go to the most loaded fifth of the experts
}

// Map returns the measures by their JSON names.
func (s Stats) Map() map[string]float64 {
	text, err := json.Marshal(s)
	m := map[string]float64{}
	if err = errors.Join(err, json.Unmarshal(text, &m)); err != nil {
		panic("workloads: a statistic is not a finite number: " + err.Error())
	}
	return m
}

// Stats measures the workload.
func (w *Workload) Stats() Stats {
	total := make([]int64, w.Problem.Experts)
	pair := int64(0)
	for rank := range w.Ranks {
		for e, n := range w.ExpertCounts(rank) {
			total[e] += n
			pair = max(pair, n)
		}
	}
	s := MeasureCounts(total, w.Problem.Ranks)
	s.MaxMeanPair = 1
	var active int64
	s.Tokens, active, s.Masked = w.tally()
	if s.Selections > 0 {
		pairs := int64(len(total) * len(w.Ranks))
		if w.Problem.SkipA2A {
			pairs = int64(len(total))
		}
		s.MaxMeanPair = float64(pair*pairs) / float64(s.Selections)
		visits, stay := w.spread()
		s.DistinctRanks, s.LocalShare = float64(visits)/float64(active), float64(stay)/float64(s.Selections)
	}
	return s
}

// MeasureCounts returns the measures of expert counts. Experts lie on ranks in equal blocks.
func MeasureCounts(counts []int64, ranks int) Stats {
	load := floats(counts)
	s := Stats{
		Gini: gini(load), CV: variation(load), MaxMeanExpert: maxMean(load),
		MaxMeanRank: maxMean(floats(rankSums(counts, ranks))), Top20Share: top20(load),
	}
	h := entropy(load)
	s.Entropy, s.EffectiveExperts = h/ln(2), exp(h)
	for _, n := range counts {
		s.Selections += n
	}
	return s
}

func (w *Workload) tally() (tokens, active, masked int64) {
	ranks := w.Ranks
	if w.Problem.SkipA2A {
		ranks = ranks[:1]
	}
	for _, rt := range ranks {
		tokens += int64(rt.Tokens)
		for i := 0; i < len(rt.Experts); i += w.Problem.TopK {
			n := int64(0)
			for _, e := range rt.Experts[i : i+w.Problem.TopK] {
				if e < 0 {
					n++
				}
			}
			masked += n
			if n < int64(w.Problem.TopK) {
				active++
			}
		}
	}
	return tokens, active, masked
}

func (w *Workload) spread() (visits, stay int64) {
	direct, dedup := w.Messages(Direct), w.Messages(Dedup)
	for r := range direct {
		stay += direct[r][r]
		for _, n := range dedup[r] {
			visits += n
		}
	}
	return visits, stay
}

func floats(n []int64) []float64 {
	out := make([]float64, len(n))
	for i, v := range n {
		out[i] = float64(v)
	}
	return out
}
