package peers

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestDefinitionsByHand: the bytes that a library counts for its bandwidth agree with bytes computed by hand. For
// example, a token in FP8 takes 256 + 2 x 4 = 264 bytes, and goes to 4 x (1 - C(12,2)/C(16,2)) = 1.8 ranks. So
// `deepep-normal` counts 100 x 1.8 x 264 = 47,520 bytes for 100 tokens.
func TestDefinitionsByHand(t *testing.T) {
	want := map[string][2]float64{ // dispatch, combine
		"deepep-normal": {47520, 92160}, "deepep-ll": {56000, 102400}, "deepep-v2": {47520, 92160}, "hybrid-ep": {47520, 92160},
		"nccl-ep-ll": {102400, 102400}, "trtllm": {52800, 102400}, "mori": {46080, 92160}, "mori-physical": {34560, 69120},
		"mori-ll": {51200, 102400}, "pplx": {52800, 102400}, "collectivex": {47520, 92160}, "aws": {52800, 102400},
	}
	g := Given{Ranks: 4, Nodes: 1, Hidden: 256, Experts: 16, TopK: 2, Tokens: 100}
	for _, d := range Definitions {
		for i, op := range []ep.Op{ep.Dispatch, ep.Combine} {
			got := d.Bytes(g.problem(op, ep.FP8))
			if !(math.Abs(got-want[d.Name][i]) <= 1e-6) {
				t.Errorf("%s of %s: %g bytes, want %g", d.Name, op, got, want[d.Name][i])
			}
			if s := d.Seconds(g.problem(op, ep.FP8), 10); math.Abs(s-want[d.Name][i]/1e10) > 1e-18 {
				t.Errorf("%s of %s at 10 GB/s: %g s", d.Name, op, s)
			}
		}
	}
	for _, c := range []struct {
		ranks, experts, topK int
		want                 float64
	}{{4, 16, 2, 1.8}, {1, 8, 2, 1}, {2, 4, 4, 2}, {2, 4, 3, 2}, {2, 4, 2, 5.0 / 3}, {0, 4, 2, 0}, {8, 4, 2, 0}, {4, 4, 1, 1}} {
		if got := DistinctRanks(c.ranks, c.experts, c.topK); !(math.Abs(got-c.want) <= 1e-9) { // NaN is wrong too
			t.Errorf("%d ranks, %d experts, top-%d: %g, want %g", c.ranks, c.experts, c.topK, got, c.want)
		}
	}
}

// TestFewContradictions: a rank is left out if its bandwidth x time differs from the bytes of the problem.
func TestFewContradictions(t *testing.T) {
	log := func(wrong int) string {
		var b strings.Builder
		for rank := range 4 {
			us, scale := 35.0+float64(rank), 1.0
			if rank < wrong {
				scale = 2
			}
			fmt.Fprintf(&b, "[rank %d] Dispatch bandwidth: %.2f GB/s, avg_t=%.2f us | Combine bandwidth: %.2f GB/s, avg_t=%.2f us\n", rank, scale*1024*7408/us/1e3, us, scale*1024*14336/(2*us)/1e3, 2*us)
		}
		return b.String()
	}
	g := Given{Hidden: 7168, Experts: 256, TopK: 8, Tokens: 128}
	results, _, warnings, err := Read(strings.NewReader(log(1)), "auto", g)
	if err != nil || len(results) != 2 || !strings.Contains(summary(results)[0], " 38.00 us") || !strings.Contains(strings.Join(warnings, "; "), "rank 0, dispatch: ") {
		t.Errorf("one of four ranks does not fit: %v, %q", err, warnings)
	}
	if note := strings.Join(results[0].Warnings, ""); !strings.Contains(note, "slowest of 3 ranks") {
		t.Errorf("%q", note)
	}
	if _, _, _, err := Read(strings.NewReader(log(2)), "auto", g); err == nil || !strings.Contains(err.Error(), "check --tokens, --hidden and --topk of the low-latency test") {
		t.Errorf("two of four ranks do not fit: %v", err)
	}
}

// TestMaskedSelections: DeepEP's low-latency test removes up to 10 of the 1,024 selections (128 tokens x 8 experts).
func TestMaskedSelections(t *testing.T) {
	for _, c := range []struct {
		selections float64
		fine       bool
	}{{1024, true}, {1014, true}, {1012, false}, {1026, false}} {
		us := 10000.0
		text := fmt.Sprintf("[rank 0] Dispatch bandwidth: %.6f GB/s, avg_t=%.4f us | Combine bandwidth: %.6f GB/s, avg_t=%.4f us\n", c.selections*7408/us/1e3, us, c.selections*14336/us/1e3, us)
		_, _, _, err := Read(strings.NewReader(text), "auto", Given{Ranks: 8, Nodes: 1, Hidden: 7168, Experts: 256, TopK: 8, Tokens: 128})
		if (err == nil) != c.fine {
			t.Errorf("%g of 1024 selections: %v", c.selections, err)
		}
	}
}

// TestLatencyIsItsParts: the latency must be transmit_us + notify_us, unless transmit_us is 0.
func TestLatencyIsItsParts(t *testing.T) {
	row := func(transmit, notify, latency string) string {
		return "framework,version,comm_backend,phase,comm_dtype,ep_size,node_num,hidden_size,topk,num_experts,num_tokens,sms,transmit_us,notify_us,latency\n" +
			"x,1,deepep_ht,dispatch,default,8,1,7168,8,256,128,24," + transmit + "," + notify + "," + latency + "\n"
	}
	for _, c := range []struct {
		transmit, notify, latency string
		fine                      bool
	}{{"30.00", "10.00", "40.00", true}, {"30.00", "10.00", "50.00", false}, {"30.00", "0", "30.00", true}, {"0", "0", "41.00", true}, {"30.00", "10.00", "20.00", false}} {
		results, _, _, err := Read(strings.NewReader(row(c.transmit, c.notify, c.latency)), "auto", Given{})
		if (err == nil) != c.fine {
			t.Errorf("%s + %s = %s: %v", c.transmit, c.notify, c.latency, err)
		}
		if err == nil && fmt.Sprintf("%.2f", results[0].Seconds[0][0]*1e6) != c.latency {
			t.Errorf("a latency of %s us was read as %g s", c.latency, results[0].Seconds[0][0])
		}
	}
}

// TestReceivedTokensFit: a rank receives 21,686 tokens on average, with a standard deviation of 85.6. A log may differ
// from this average by 6 x 85.6 + 0.002 x 21,686 = 557 tokens.
func TestReceivedTokensFit(t *testing.T) {
	g := Given{Ranks: 8, Experts: 256, TopK: 8, Tokens: 4096}
	want := 4096 * DistinctRanks(8, 256, 8)
	for off, fine := range map[float64]bool{0: true, 550: true, -550: true, 565: false, -565: false} {
		if err := fits(g, want+off); (err == nil) != fine {
			t.Errorf("%+.0f tokens: %v", off, err)
		}
	}
}
