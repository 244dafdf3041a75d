package peers

import (
	"fmt"
	"strings"
	"testing"
)

// v2Log returns a log in the format of test_dispatch_combine in DeepEP's tests/elastic/test_ep.py.
func v2Log(domains, perDomain int, fp8 bool, us float64) string {
	var b strings.Builder
	ranks := domains * perDomain
	mode := map[bool]string{true: "True", false: "False"}[fp8]
	fmt.Fprintf(&b, "Config:\n > Ranks: %d x %d\n > Experts: 6/256\n > Tokens: 4096 (max: 4096), hidden: 7168\n > #SM: 64, #QPs: 0/0\n\nRunning all test cases:\n", domains, perDomain)
	fmt.Fprintf(&b, " > Testing with do_handle_copy=True, expert_alignment=1, use_fp8_dispatch=%s, num_bias=0, with_previous_event=False, async_with_compute_stream=False, allocate_on_comm_stream=False ...\n", mode)
	for _, l := range []struct {
		mark, name, after string
		scale             float64
	}{{"*", "dispatch", "copy", 1}, {"-", "expanded dispatch", "copy", 1.2}, {"#", "cached dispatch", "copy", 0.9}, {"@", "combine", "reduce", 2}, {"+", "reduced combine", "reduce", 2.2}} {
		for rank := range ranks {
			t := (us + float64(rank%3)) * l.scale
			bytes := 160e6 * l.scale
			fmt.Fprintf(&b, "   %s EP: %3d/%d | %s: %.0f GB/s (SO), %.0f GB/s (SU), %.3f us, %.0f bytes | %s: %.0f GB/s, %.3f us\n", l.mark, rank, ranks, l.name, 0.0, bytes/t/1e3, t, bytes, l.after, 1000.0, 40.0)
		}
	}
	return b.String()
}

func TestDeepEPV2(t *testing.T) {
	results, used, warnings, err := Read(strings.NewReader(v2Log(1, 8, true, 500)+v2Log(1, 8, true, 700)), "auto", Given{})
	if err != nil || used != "deepep-v2" {
		t.Fatalf("%s, %v", used, err)
	}
	want := []string{
		"dispatch fp8 deepep-v2:sms=64 t4096 r8 n1 542.00 us, uniform", // 502 us transfer + 40 us copy
		"dispatch fp8 deepep-v2-expand:sms=64 t4096 r8 n1 642.40 us, uniform",
		"dispatch fp8 deepep-v2-cached:sms=64 t4096 r8 n1 491.80 us, uniform",
		"combine fp8 deepep-v2:sms=64 t4096 r8 n1 1044.00 us, uniform",
		"combine fp8 deepep-v2-expand:sms=64 t4096 r8 n1 1144.40 us, uniform",
	}
	if got := summary(results); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "40 lines left out: only the first case") {
		t.Errorf("%q", warnings)
	}
	for _, c := range []struct {
		text  string
		nodes int
		says  string
	}{
		{v2Log(2, 8, true, 500), 2, ""},
		{v2Log(1, 16, true, 500), 0, "give --nodes"},
		{strings.Replace(v2Log(1, 8, true, 500), "160000000 bytes", "190000000 bytes", 1), 0, "are 380.0 GB/s, but the line says 320"},
	} {
		results, _, _, err := Read(strings.NewReader(c.text), "auto", Given{})
		if c.nodes == 0 && (err == nil || !strings.Contains(err.Error(), c.says)) || c.nodes > 0 && (err != nil || results[0].Problem.Nodes != c.nodes) {
			t.Errorf("%v, want %q or %d hosts", err, c.says, c.nodes)
		}
	}
}

// hybridLog returns a log in the format of _report_bw in DeepEP's tests/test_hybrid_ep.py.
func hybridLog() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n=== Torch API Benchmark (%s, %d ranks) ===\n", "FP8", 8)
	for i, label := range []string{"dispatch (FP8)", "combine", "dispatch+permute (FP8)", "combine+unpermute", "fused dispatch+permute (FP8)", "fused combine+unpermute"} {
		mb, avg := 160.25, 500+float64(i)
		fmt.Fprintf(&b, "%-38s %.2f GB/s (NVL), t: %.1f us [min=%.1f, max=%.1f], %s: %.2f MB\n", label+":", mb*1e3/avg, avg, avg-9, avg+11, "nvl_recv_bytes", mb)
	}
	return b.String()
}

func TestHybridEP(t *testing.T) {
	g := Given{Experts: 64, TopK: 8, Hidden: 7168, Tokens: 4096}
	results, used, warnings, err := Read(strings.NewReader(hybridLog()), "auto", g)
	if err != nil || used != "hybrid-ep" || len(warnings) > 0 || len(results) != 6 {
		t.Fatalf("%s, %d results, %q, %v", used, len(results), warnings, err)
	}
	got := summary(results)
	if got[0] != "dispatch fp8 hybrid-ep: t4096 r8 n1 511.00 us, uniform" || got[5] != "combine fp8 hybrid-ep-permute-fused: t4096 r8 n1 516.00 us, uniform" {
		t.Errorf("%q", got)
	}
	for from, says := range map[string]string{"160.25 MB": "the line says 260.25 MB", "max=511.0": "outside min=491 to max=411"} {
		to := map[string]string{"160.25 MB": "260.25 MB", "max=511.0": "max=411.0"}[from]
		if _, _, _, err := Read(strings.NewReader(strings.Replace(hybridLog(), from, to, 1)), "auto", g); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", from, err)
		}
	}
}

// mooncakeJSON has the format of Mooncake's assemble_json_output.
const mooncakeJSON = `{"benchmark": "mooncake_ep", "backend": "mooncake", "world_size": 4, "num_experts": 64, "hidden_size": 4096, "top_k": 8, "num_tokens": 128, "dtype": "fp8",
 "routing_mode": "zipf", "zero_copy": false, "async_finish": false, "return_recv_hook": false, "warmup_iters": 10, "iters": 50, "pg_backend": "nccl", "zipf_alpha": 1.2,
 "metrics": {"dispatch_latency_ms": {"p50": 0.120, "p90": 0.130, "p95": 0.140, "p99": 0.150, "p999": 0.160, "mean": 0.121},
  "combine_latency_ms": {"p50": 0.200, "p90": 0.210, "p95": 0.215, "p99": 0.220, "p999": 0.220, "mean": 0.201},
  "end_to_end_latency_ms": {"p50": 0.5, "p90": 0.5, "p95": 0.5, "p99": 0.5, "p999": 0.5, "mean": 0.5},
  "tokens_per_second": 1024000.0, "expert_load": {"max_tokens_per_expert": 500, "min_tokens_per_expert": 3, "mean_tokens_per_expert": 64, "imbalance_ratio": 7.8},
  "per_rank_stats": {"dispatch_latency_ms": {"rank0": {}, "rank1": {}, "rank2": {}, "rank3": {}}}}}`

func TestMooncake(t *testing.T) {
	results, used, _, err := Read(strings.NewReader(mooncakeJSON), "auto", Given{})
	if err != nil || used != "mooncake" {
		t.Fatalf("%s, %v", used, err)
	}
	want := []string{"dispatch fp8 mooncake-mooncake: t128 r4 n1 120.00 us, zipf:1.2", "combine fp8 mooncake-mooncake: t128 r4 n1 200.00 us, zipf:1.2"}
	if got := summary(results); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q", got)
	}
	for from, to := range map[string]string{`"num_tokens": 128`: `"num_tokens": 256`, `"world_size": 4`: `"world_size": 8`, `"p99": 0.150`: `"p99": 0.015`} {
		if _, _, _, err := Read(strings.NewReader(strings.Replace(mooncakeJSON, from, to, 1)), "auto", Given{}); err == nil {
			t.Errorf("%s was not noticed", to)
		}
	}
}

func TestTRTLLMAlltoall(t *testing.T) {
	const table = `framework,version,device,op_name,kernel_source,moe_dtype,num_tokens,hidden_size,topk,num_experts,moe_ep_size,distribution,latency
TRTLLM,1.2.0rc6,NVIDIA GB200,alltoall_prepare,NVLinkTwoSided,bfloat16,1,7168,8,256,4,balanced,0.01138
TRTLLM,1.2.0rc6,NVIDIA GB200,alltoall_dispatch,NVLinkTwoSided,nvfp4,96,7168,8,256,8,balanced,0.0150976
TRTLLM,1.2.0rc6,NVIDIA GB200,alltoall_combine,NVLinkTwoSided,bfloat16,96,7168,8,256,2,balanced,0.0178944
`
	results, used, warnings, err := Read(strings.NewReader(table), "auto", Given{})
	if err != nil || used != "aiconfigurator" {
		t.Fatalf("%s, %v", used, err)
	}
	want := []string{"dispatch nvfp4 trtllm-nvlinktwosided: t96 r8 n2 15.10 us, balanced", "combine bf16 trtllm-nvlinktwosided: t96 r2 n1 17.89 us, balanced"}
	if got := summary(results); strings.Join(got, "\n") != strings.Join(want, "\n") || len(warnings) != 1 || !strings.Contains(warnings[0], "alltoall_prepare") {
		t.Errorf("%q, %q", got, warnings)
	}
}
