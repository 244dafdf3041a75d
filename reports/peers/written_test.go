package peers

import (
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/testfile"
)

func written(t *testing.T, name string) string {
	t.Helper()
	data := testfile.Read(t, "testdata/written/"+name)
	return string(data)
}

var writtenGiven = map[string]Given{
	"deepep-intranode.txt":   {Ranks: 8, Experts: 256},
	"deepep-internode.txt":   {Ranks: 16, Nodes: 2, Experts: 256},
	"deepep-low-latency.txt": {Hidden: 7168, TopK: 8, Experts: 256, Tokens: 128},
	"hybrid-ep.txt":          {Hidden: 7168, TopK: 8, Experts: 256, Tokens: 4096},
	"moonep.txt":             {Routing: "lognormal:maxmean=4.321"},
	"moonep.csv":             {Routing: "lognormal:maxmean=4.321"},
	"mori-dispatch.json":     {Experts: 256},
	"mori-combine.json":      {Experts: 256},
	"nccl.txt":               {Hidden: 7168, TopK: 8, Experts: 256},
	"nccl.json":              {Hidden: 7168, TopK: 8, Experts: 256},
}

// TestWritten reads files that the benchmarks' own code wrote from invented times; see docs/importers.md.
func TestWritten(t *testing.T) {
	moon := []string{"dispatch bf16 moonep: t4096 r8 n1 932.70 us, lognormal:maxmean=4.321", "combine bf16 moonep: t4096 r8 n1 1045.30 us, lognormal:maxmean=4.321"}
	for name, want := range map[string][]string{
		"aiconfigurator-ll.csv": {"dispatch fp8 deepep-ll: t1 r8 n1 11.90 us, uniform", "combine fp8 deepep-ll: t1 r8 n1 12.60 us, uniform",
			"dispatch fp8 deepep-ll: t128 r8 n1 35.10 us, uniform", "combine fp8 deepep-ll: t128 r8 n1 67.70 us, uniform"},
		"aiconfigurator-normal.csv": {"dispatch fp8 deepep-normal:sms=20 t4096 r8 n1 524.50 us, uniform", "combine fp8 deepep-normal:sms=20 t4096 r8 n1 998.50 us, uniform"},
		"aiconfigurator-moe-a2a.csv": {"combine fp8 deepep-ht:sms=20 t4096 r8 n1 998.50 us, uniform", "dispatch fp8 deepep-ht:sms=20 t4096 r8 n1 524.50 us, uniform",
			"combine fp8 deepep-ll: t128 r8 n1 67.70 us, uniform", "dispatch fp8 deepep-ll: t128 r8 n1 35.10 us, uniform"},
		"aiconfigurator-trtllm.csv": {"combine nvfp4 nvlink-two-sided: t96 r8 n2 17.89 us, uniform", "dispatch nvfp4 nvlink-two-sided: t96 r8 n2 15.10 us, uniform"},
		"deepep-intranode.txt": {"dispatch fp8 deepep-normal:chunk=6,sms=24 t4096 r8 n1 940.29 us, uniform", "dispatch bf16 deepep-normal:chunk=6,sms=24 t4096 r8 n1 923.90 us, uniform",
			"combine bf16 deepep-normal:chunk=9,sms=24 t4096 r8 n1 916.18 us, uniform"},
		"deepep-internode.txt": {"dispatch fp8 deepep-normal:chunk=44,rdma_chunk=20,sms=24 t4096 r16 n2 2834.00 us, uniform", "dispatch bf16 deepep-normal:chunk=32,rdma_chunk=8,sms=24 t4096 r16 n2 2835.00 us, uniform",
			"combine bf16 deepep-normal:chunk=3,rdma_chunk=32,sms=24 t4096 r16 n2 2838.00 us, uniform"},
		"deepep-low-latency.txt": {"dispatch fp8 deepep-ll: t128 r8 n1 35.84 us, uniform", "combine fp8 deepep-ll: t128 r8 n1 67.86 us, uniform", "pair fp8 deepep-ll: t128 r8 n1 114.52 us, uniform",
			"dispatch fp8 deepep-ll-hook: t128 r8 n1 35.95 us, uniform", "combine fp8 deepep-ll-hook: t128 r8 n1 67.66 us, uniform"},
		"deepep-v2.txt": {"dispatch fp8 deepep-v2:sms=64 t4096 r8 n1 558.96 us, uniform", "dispatch fp8 deepep-v2-expand:sms=64 t4096 r8 n1 679.60 us, uniform",
			"dispatch fp8 deepep-v2-cached:sms=64 t4096 r8 n1 503.55 us, uniform", "combine fp8 deepep-v2:sms=64 t4096 r8 n1 1063.95 us, uniform", "combine fp8 deepep-v2-expand:sms=64 t4096 r8 n1 1168.47 us, uniform"},
		"hybrid-ep.txt": {"dispatch fp8 hybrid-ep: t4096 r8 n1 319.50 us, uniform", "combine fp8 hybrid-ep: t4096 r8 n1 323.10 us, uniform", "dispatch fp8 hybrid-ep-permute: t4096 r8 n1 321.00 us, uniform",
			"combine fp8 hybrid-ep-permute: t4096 r8 n1 327.50 us, uniform", "dispatch fp8 hybrid-ep-permute-fused: t4096 r8 n1 332.30 us, uniform", "combine fp8 hybrid-ep-permute-fused: t4096 r8 n1 309.10 us, uniform"},
		"mooncake.json":      {"dispatch fp8 mooncake-mooncake: t128 r4 n1 123.30 us, zipf:1.2", "combine fp8 mooncake-mooncake: t128 r4 n1 204.24 us, zipf:1.2"},
		"moonep.txt":         moon,
		"moonep.csv":         moon,
		"mori-dispatch.json": {"dispatch fp8 mori-intranode-mi300x:sms=80,warps=16 t128 r8 n1 37.50 us, uniform", "dispatch fp8 mori-intranode-mi300x:sms=80,warps=16 t4096 r8 n1 522.00 us, uniform"},
		"mori-combine.json":  {"combine bf16 mori-intranode-mi300x:sms=80,warps=8,zero_copy=yes t128 r8 n1 62.25 us, uniform", "combine bf16 mori-intranode-mi300x:sms=80,warps=8,zero_copy=yes t4096 r8 n1 987.50 us, uniform"},
		"nccl.txt":           ncclWritten(),
		"nccl.json":          ncclWritten(),
	} {
		results, _, _, err := Read(strings.NewReader(written(t, name)), "auto", writtenGiven[name])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := summary(results)
		if n := tunedLines[name]; n > 0 {
			if len(got) != n {
				t.Errorf("%s: %d figures, want %d", name, len(got), n)
			}
			got = slices.DeleteFunc(got, func(s string) bool { return !slices.Contains(want, s) })
		}
		slices.Sort(got)
		slices.Sort(want)
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// tunedLines holds the number of figures in files that have a line for each config.
var tunedLines = map[string]int{"deepep-intranode.txt": 49, "deepep-internode.txt": 218}

// ncclWritten returns the figures of 1 to 128 tokens: 35 us plus 1 us for each 200,000 bytes. A token has 114,688
// bytes.
func ncclWritten() (want []string) {
	for i, us := range []string{"35.57", "36.15", "37.29", "39.59", "44.18", "53.35", "71.70", "108.40"} {
		for _, op := range []string{"dispatch", "combine"} {
			want = append(want, op+" bf16 nccl-alltoall: t"+[]string{"1", "2", "4", "8", "16", "32", "64", "128"}[i]+" r8 n1 "+us+" us, uniform")
		}
	}
	return want
}

// TestChangedWritten changes one figure of a file. If `says` is empty, the test expects no error and no warning.
func TestChangedWritten(t *testing.T) {
	for _, c := range []struct{ file, from, to, says string }{
		// 128 tokens x 8 experts, of which at most 10 are masked, are at least 1,014 selections.
		{"deepep-low-latency.txt", "213.24 GB/s, avg_t=35.26", "212.23 GB/s, avg_t=35.26", "rank 5, dispatch: 212.23 GB/s x 35.26 us = 1010 selections of 7408 bytes"},
		{"deepep-low-latency.txt", "213.24 GB/s, avg_t=35.26", "213.10 GB/s, avg_t=35.26", ""},
		{"deepep-low-latency.txt", "213.24 GB/s, avg_t=35.26", "215.15 GB/s, avg_t=35.26", ""},
		{"deepep-low-latency.txt", "213.24 GB/s, avg_t=35.26", "215.30 GB/s, avg_t=35.26", "rank 5, dispatch"},
		{"deepep-low-latency.txt", "avg_t=114.52 us, min_t=108.00", "avg_t=114.52 us, min_t=115.00", "avg_t=114.52 us is outside min_t=115 us to max_t=117 us"},
		{"deepep-low-latency.txt", "max_t=117.00", "max_t=111.00", "outside min_t=108 us to max_t=111 us"},
		{"deepep-low-latency.txt", "12.00 + 55.66", "12.00 + 155.66", "rank 1, combine: sending and receiving take 167.66 us"},
		{"deepep-low-latency.txt", "12.00 + 55.66", "12.00 + 20.00", "rank 1, combine: sending and receiving take 32 us"},
		{"deepep-low-latency.txt", "12.00 + 55.66", "12.00 + 40.00", ""},
		{"deepep-intranode.txt", "t: 940.29 us", "t: 950.29 us", "the Best line says 950.29 us, the other line of this config 940.29"},
		{"deepep-intranode.txt", "chunk 6, 170.59 GB/s (NVL), t", "chunk 6, 171.59 GB/s (NVL), t", "the Best line says 171.59 GB/s, the other line of this config 170.59"},
		{"deepep-intranode.txt", "num_tokens=4096", "num_tokens=2048", "2048 tokens a rank with top-8 of 256 experts on 8 ranks give 10843"},
		{"deepep-internode.txt", "num_topk_groups=2", "num_topk_groups=1", ""}, // number of tokens unknown
		{"nccl.txt", "35.57    3.22    2.82", "35.57    3.42    2.82", "size 114688 in 35.57 us are 3.22 GB/s, but the row says 3.42 GB/s"},
		{"nccl.txt", "35.57    3.22    2.82", "35.57    3.22    2.62", "is not (ranks-1)/ranks for the 8 ranks"},
		{"nccl.txt", "35.57    3.22    2.82", "35.57    0.00    0.00", ""}, // rounded to 0
		{"nccl.txt", "35.57    3.22    2.82       0", "35.57    3.22    2.82       1", "1 of 8 sizes left out: they had wrong elements"},
		{"nccl.txt", "bfloat16    none      -1    35.57", "bfloat16     sum      -1    35.57", "rows of a reduction (sum) left out"},
		{"nccl.json", `"ngpus":8`, `"ngpus":4`, "1 devices x 1 threads x 4 GPUs are 4 ranks, but size and count mean 8 ranks"},
		{"nccl.json", `"nthreads":1`, `"nthreads":2`, "1 devices x 2 threads x 8 GPUs are 16 ranks"},
		{"nccl.json", `"nwrong":0.000000`, `"nwrong":-1.000000`, "1 of 8 sizes left out: they had wrong elements"},
		{"nccl.json", `"out_of_place":{"time"`, `"out_of_place":{"cpu_time"`, "the times were taken on the host (-C)"},
		{"nccl.json", `\/build\/alltoall_perf`, `\/build\/sendrecv_perf`, "sendrecv_perf; only alltoall_perf"},
		{"mooncake.json", `"num_tokens": 128`, `"num_tokens": 256`, "256 tokens on 4 ranks in 0.51279"},
		{"mooncake.json", `"p99": 0.1258`, `"p99": 0.1158`, "dispatch_latency_ms: p50 is 0.12329916"},
		{"mooncake.json", `"rank3"`, `"rank4"`, ""},
		{"mooncake.json", `"world_size": 4`, `"world_size": 5`, "tokens_per_second is 998455"},
		{"mooncake.json", `"routing_mode": "zipf"`, `"routing_mode": "own"`, `routing_mode: "own" is unknown; give --routing`},
		{"hybrid-ep.txt", "t: 316.6 us", "t: 320.6 us", "490.35 GB/s x 320.6 us = 157.21 MB"},
		{"hybrid-ep.txt", "nvl_recv_bytes: 155.23 MB", "nvl_recv_bytes: 165.23 MB", "the line says 165.23 MB"},
		{"deepep-v2.txt", "162227520 bytes", "172227520 bytes", "the line says 313"},
		{"deepep-v2.txt", "Ranks: 1 x 8", "Ranks: 2 x 8", "16"},
		{"moonep.csv", "812.3", "813.3", "the row says 578.3"},
		{"moonep.txt", "812.3", "813.3", "the row says 578.3"},
		{"mori-dispatch.json", `"latency_us": 522.0`, `"latency_us": 560.0`, "a rule for 4096 tokens of hidden 7168 left out: latency_us is 560"},
		{"mori-dispatch.json", `"latency_us": 522.0`, `"latency_us": 530.0`, ""}, // within moriSlack
		{"mori-dispatch.json", "fp8_e4m3_fnuz", "fp4", `rules of dtype "fp4" left out`},
		{"aiconfigurator-moe-a2a.csv", "996.0,2.5,998.5", "996.0,2.5,999.5", "999.5"},
		{"aiconfigurator-ll.csv", "12.6,9.10222", "12.6,9.20222", "9.2"},
	} {
		text := written(t, c.file)
		if !strings.Contains(text, c.from) {
			t.Errorf("%s has no %q", c.file, c.from)
			continue
		}
		_, _, before, err := Read(strings.NewReader(text), "auto", writtenGiven[c.file])
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		_, _, warnings, err := Read(strings.NewReader(strings.Replace(text, c.from, c.to, 1)), "auto", writtenGiven[c.file])
		said := strings.Join(slices.DeleteFunc(warnings, func(w string) bool { return slices.Contains(before, w) }), "; ")
		if err != nil {
			said += err.Error()
		}
		if c.says == "" && said != "" || !strings.Contains(said, c.says) {
			t.Errorf("%s, %q to %q: said %q, want %q", c.file, c.from, c.to, said, c.says)
		}
	}
}

func TestBaselineFile(t *testing.T) {
	const text = `{"workload":{"hidden":7168,"topk":8,"experts":256,"ranks":4},"latency_us":{"flag":0.9},
"deepep_v1_low_latency_us":{"dispatch_fp8":{"128":37.6,"1":15.2},"combine_bf16":{"128":65.7}},
"deepep_v1_normal_24sm_us":{"dispatch_bf16_cached":{"4096":946.9}},"nccl_all_to_all_fp8_us":{"8":20.5}}`
	results, used, _, err := Read(strings.NewReader(text), "auto", Given{})
	if err != nil || used != "baseline" {
		t.Fatalf("%s, %v", used, err)
	}
	var got []string
	for _, r := range results {
		got = append(got, line(r))
	}
	want := []string{
		"combine bf16 128 tokens 4 ranks: deepep-v1-low-latency: 65.70 us (span)",
		"dispatch fp8 1 tokens 4 ranks: deepep-v1-low-latency: 15.20 us (span)", "dispatch fp8 128 tokens 4 ranks: deepep-v1-low-latency: 37.60 us (span)",
		"dispatch bf16 4096 tokens 4 ranks: deepep-v1-normal:sms=24 946.90 us (event)",
		"dispatch fp8 8 tokens 4 ranks: nccl-all-to-all: 20.50 us (event)", "combine fp8 8 tokens 4 ranks: nccl-all-to-all: 20.50 us (event)",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for from, c := range map[string][2]string{
		`"ranks":4`: {`"ranks":16`, "give --nodes"}, `"hidden":7168,`: {"", "give --hidden"}, `"4096":946.9`: {`"many":946.9`, `"many" is not a token count`},
		`"dispatch_bf16_cached"`: {`"gather_bf16"`, "gather"}, `{"flag":0.9}`: {`[1]`, ""}, `{"8":20.5}`: {`[20.5]`, "nccl_all_to_all_fp8_us"}, `{"hidden":7168`: {`{"hidden":"wide"`, "workload: "},
	} {
		_, _, _, err := Read(strings.NewReader(strings.Replace(text, from, c[0], 1)), "auto", Given{})
		if (err == nil) != (c[1] == "") || err != nil && !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v, want %q", c[0], err, c[1])
		}
	}
}
