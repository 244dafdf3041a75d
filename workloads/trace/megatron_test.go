package trace

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/testfile"
)

// TestMegatronRouterTrace reads two files that RouterTracer wrote.
func TestMegatronRouterTrace(t *testing.T) {
	r, err := OpenAll([]string{golden + "megatron_router"}, Options{Layer: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, err := r.Scan(nil)
	if err != nil || s.Rows != 24 || s.TopK != 4 || !slices.Equal(s.Counts, []int64{2, 4, 13, 8, 1, 5, 7, 8, 7, 7, 4, 3, 11, 4, 6, 6}) {
		t.Errorf("%+v, %v", s, err)
	}
	if notes := strings.Join(r.Notes(), "; "); !strings.Contains(notes, "2 records of multi-token prediction are left out") || !strings.Contains(notes, "2 files are read as one recording") {
		t.Errorf("notes %q", notes)
	}
	if _, err := OpenAll([]string{golden + "megatron_router"}, Options{Layer: -1}); err == nil || !strings.Contains(err.Error(), "the file has several layers: layers 1 to 3 have counts; give --layer") {
		t.Errorf("no layer: %v", err)
	}
	if _, err := OpenAll([]string{golden + "megatron_router"}, Options{Layer: 7}); err == nil || !strings.Contains(err.Error(), "no record of layer 7; layers 1 to 3 have counts") {
		t.Errorf("layer 7: %v", err)
	}
	one, err := OpenAll([]string{golden + "megatron_router/router_trace_rank1.jsonl"}, Options{Layer: 2})
	if err != nil || !strings.Contains(strings.Join(one.Notes(), "; "), "ranks 0 are missing") {
		t.Errorf("rank 1 alone: %q, %v", one.Notes(), err)
	}
	one.Close()
}

// TestMegatronTokensPerExpert reads a file of ActivationLogger.save_tpe for each of two ranks.
func TestMegatronTokensPerExpert(t *testing.T) {
	r, err := OpenAll([]string{golden + "megatron_tokens_per_expert"}, Options{Layer: 2})
	if err != nil {
		t.Fatal(err)
	}
	counts, err := r.ReadCounts()
	if want := []int64{431, 437, 356, 319, 366, 289, 471, 466, 423, 357, 253, 503, 565, 496, 289, 452}; err != nil || !slices.Equal(counts, want) {
		t.Errorf("%v, %v, want %v", counts, err, want)
	}
	if notes := strings.Join(r.Notes(), "; "); !strings.Contains(notes, "each file has the counts of one rank's experts") {
		t.Errorf("%q", notes)
	}
	both := []string{golden + "megatron_tokens_per_expert/rank1.jsonl", golden + "megatron_tokens_per_expert/rank1.jsonl"}
	if _, err := OpenAll(both, Options{Layer: 2}); err == nil || !strings.Contains(err.Error(), "both hold the tokens of rank 1") {
		t.Errorf("one rank twice: %v", err)
	}
}

func TestMegatronContradictions(t *testing.T) {
	const good = `{"step": 0, "block": "decoder", "layer": 1, "rank": 0, "num_tokens": 2, "topk": 2, "top_indices": [[0, 1], [2, 3]]}` + "\n"
	for _, c := range []struct{ text, says string }{
		{strings.Replace(good, `"num_tokens": 2`, `"num_tokens": 3`, 1), "num_tokens is 3, but top_indices has 2"},
		{strings.Replace(good, `"topk": 2`, `"topk": 3`, 1), "token 0 has 2 ids, but topk is 3"},
		{good + strings.Replace(good, `"rank": 0`, `"rank": 1`, 1), "records of ranks 0, 1; write one file"},
		{good + `{"block": "decoder", "layer": 1, "tpe": [[1]]}`, "layer 1 has top-0, but an earlier record of this layer has top-2"},
		{`{"block": "decoder", "layer": 1, "tpe": [[1, 2], [3]]}`, "1 experts, but the records before it have 2"},
		{`{"block": "decoder", "layer": 1, "tpe": [[1, -2]]}`, "expert 1: -2 is not a count"},
		{`{"block": "decoder", "layer": 1, "tpe": [[0, 0]]}`, "nothing was recorded"},
		{`{"block": "mtp", "mtp_idx": 0, "layer": 1, "tpe": [[1]]}`, "all records are of multi-token prediction"},
		{`{"block": "decoder", "layer": 99999, "tpe": [[1]]}`, "layer 99999 is outside"},
		{`{"block": "decoder", "layer": 1, "num_tokens": 1, "topk": 0, "top_indices": [[]]}`, "topk is missing"},
		{`{"block": "decoder", "layer": 1, "top_indices": `, "line 1"},
	} {
		if _, err := scan(write(t, t.TempDir(), "x.jsonl", c.text), noLayer); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.90s: %v, want %q", c.text, err, c.says)
		}
	}
}

// TestChangedMegatronRecords changes no ids, because nothing shows that a valid id was changed.
func TestChangedMegatronRecords(t *testing.T) {
	data := testfile.Read(t, golden+"megatron_router/router_trace_rank0.jsonl")
	rng := rand.New(rand.NewPCG(5, 6))
	noticed := 0
	for range 200 {
		field := []string{`"num_tokens": 6`, `"topk": 4`}[rng.IntN(2)]
		at := strings.Index(string(data), field)
		name, _, _ := strings.Cut(field, " ")
		text := string(data[:at]) + fmt.Sprintf("%s %d", name, []int{1, 2, 3, 5, 8, 9}[rng.IntN(6)]) + string(data[at+len(field):])
		if _, err := scan(write(t, t.TempDir(), "x.jsonl", text), Options{Layer: 1}); err != nil {
			noticed++
		}
	}
	if noticed < 190 {
		t.Errorf("%d of 200 changes were noticed", noticed)
	}
}

func TestEPLBLog(t *testing.T) {
	line := func(avg, most float64) string {
		return fmt.Sprintf("(EngineCore_0 pid=7) INFO 08-12 10:00:00 [eplb_state.py:330] EPLB step: avg_tokens=%.2f, max_tokens=%d, balancedness=%.4f\n", avg, int(most), avg/most)
	}
	newer := "INFO [eplb_state.py:500] EPLB step: 12 for model deepseek-ai/DeepSeek-V3: avg_tokens=1024.00, max_tokens=2048, balancedness=0.5000, steps until the next rearrangement: 2988\n"
	for _, c := range []struct{ text, says string }{
		{"other\n" + line(1024, 2048) + line(1024, 1280), "2 EPLB steps: the busiest rank took 1.538 times the mean, 2.000 times in the worst step. A log holds no counts of experts; record expert_load_window"},
		{newer, "1 EPLB steps: the mean divided by the maximum is 0.500, over ranks if vLLM has PR 51813, otherwise over layers"},
		{newer + strings.Replace(newer, "DeepSeek-V3", "Qwen3", 1), "EPLB lines of several models"},
		{strings.Replace(line(1024, 2048), "0.5000", "0.6000", 1), "line 1: avg_tokens=1024 divided by max_tokens=2048 is 0.5000, but balancedness is 0.6000"},
		{"EPLB step: avg_tokens=0.00, max_tokens=0, balancedness=0.0000\n", "1 EPLB steps without tokens"},
		{"nothing\n", "the log has no EPLB lines of vLLM"},
	} {
		if _, err := Open(write(t, t.TempDir(), "vllm.log", c.text), noLayer); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
}

func TestChangedEPLBLines(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	noticed := 0
	for range 200 {
		most := 500 + rng.IntN(5000)
		avg := float64(most) * (0.3 + 0.6*rng.Float64())
		figures := []float64{avg, float64(most), avg / float64(most)}
		factor := 1.05 + 2*rng.Float64()
		if rng.IntN(2) == 0 {
			factor = 1 / factor
		}
		figures[rng.IntN(3)] *= factor
		text := fmt.Sprintf("EPLB step: avg_tokens=%.2f, max_tokens=%d, balancedness=%.4f\n", figures[0], int(figures[1]), figures[2])
		if _, err := Open(write(t, t.TempDir(), "x.log", text), noLayer); strings.Contains(err.Error(), "but balancedness is") {
			noticed++
		}
	}
	if noticed < 190 {
		t.Errorf("%d of 200 changes were noticed", noticed)
	}
}
