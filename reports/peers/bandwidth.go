package peers

import (
	"math"

	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

// Definition is a project's definition of bandwidth, to compute times from bandwidths.
type Definition struct {
	Name  string
	Doc   string
	Bytes func(p ep.Problem) float64 // per rank and call
}

// Definitions lists the definitions of other projects.
var Definitions = []Definition{
	{"deepep-normal", "received tokens times the payload; a token counts once for each rank that receives it, its own rank included", received},
	{"deepep-ll", "one copy per token and expert, own rank included; FP8 adds scales and 16 bytes", lowLatency},
	{"deepep-v2", "as deepep-normal, with the time of the transfer kernel alone", received},
	{"hybrid-ep", "algorithm bandwidth, as deepep-normal", received},
	{"nccl-ep-ll", "one BF16 copy per token and expert", func(p ep.Problem) float64 { return perSelection(p) * 2 * float64(p.Hidden) }},
	{"trtllm", "tokens times the smaller of ranks and top-k, times the payload", func(p ep.Problem) float64 {
		return float64(p.Tokens*min(p.Ranks, p.TopK)) * payload(p)
	}},
	{"mori", "as deepep-normal, without scales", elements},
	{"mori-physical", "as mori, times (ranks-1)/ranks", func(p ep.Problem) float64 {
		return elements(p) * float64(p.Ranks-1) / float64(p.Ranks)
	}},
	{"mori-ll", "tokens times top-k times the payload without scales", func(p ep.Problem) float64 { return perSelection(p) * unscaled(p) }},
	{"pplx", "tokens times top-k times the payload, divided by the time of send and receive", func(p ep.Problem) float64 { return perSelection(p) * payload(p) }},
	{"collectivex", "as deepep-normal", received},
	{"aws", "tokens times top-k times the payload", func(p ep.Problem) float64 { return perSelection(p) * payload(p) }},
}

// FindDefinition returns the definition with this name.
func FindDefinition(name string) (Definition, error) {
	return ep.Find("definition", name, Definitions, func(d Definition) string { return d.Name })
}

// Seconds returns the time of one call at gbps (1e9 bytes per second).
func (d Definition) Seconds(p ep.Problem, gbps float64) float64 {
	return d.Bytes(p) / (gbps * 1e9)
}

func perSelection(p ep.Problem) float64 { return float64(p.Tokens) * float64(p.TopK) }

// payload returns the bytes of one token and its scales.
func payload(p ep.Problem) float64 {
	if p.Op == ep.Combine {
		return 2 * float64(p.Hidden)
	}
	l := dtype.Of(p.Dispatch, p.Hidden)
	return float64(l.Payload + l.Scales*l.ScaleBytes)
}

func unscaled(p ep.Problem) float64 {
	if p.Op == ep.Combine {
		return payload(p)
	}
	return float64(dtype.Of(p.Dispatch, p.Hidden).Payload)
}

func lowLatency(p ep.Problem) float64 {
	size := payload(p)
	if p.Op != ep.Combine {
		size += 16
	}
	return perSelection(p) * size
}

func received(p ep.Problem) float64 { return receivedTokens(p) * payload(p) }
func elements(p ep.Problem) float64 { return receivedTokens(p) * unscaled(p) }

func receivedTokens(p ep.Problem) float64 {
	return float64(p.Tokens) * DistinctRanks(p.Ranks, p.Experts, p.TopK)
}

// DistinctRanks returns the mean number of ranks to which a token goes, if its topK experts are drawn uniformly without
// repetition. C is the binomial coefficient:
//
//	ranks (1 - C(experts - experts/ranks, topK) / C(experts, topK))
func DistinctRanks(ranks, experts, topK int) float64 {
	if ranks < 1 || experts < ranks {
		return 0
	}
	others := experts - experts/ranks
	miss := 0.0
	for i := range topK {
		if others-i <= 0 {
			return float64(ranks)
		}
		miss += math.Log(float64(others-i)) - math.Log(float64(experts-i))
	}
	return float64(ranks) * (1 - math.Exp(miss))
}
