package peers

import (
	"slices"
	"strings"
	"testing"
)

// TestPublicLogs reads quoted lines of public reports.
func TestPublicLogs(t *testing.T) {
	v3 := Given{Hidden: 7168, Experts: 256, TopK: 8}
	with := func(change func(*Given)) Given {
		g := v3
		change(&g)
		return g
	}
	for _, c := range []struct {
		from, text string
		g          Given
		want       []string
		says       string
	}{
		{"https://github.com/deepseek-ai/DeepEP/issues/633, two H100; no line names the operation", `
[tuning] SMs 100, NVL chunk 4: 357.23 GB/s (NVL), avg_t: 168.89 us
[tuning] SMs 100, NVL chunk 6: 403.38 GB/s (NVL), avg_t: 149.57 us
[tuning] SMs 100, NVL chunk 8: 431.41 GB/s (NVL), avg_t: 139.85 us
`, with(func(g *Given) { g.Ranks, g.Tokens = 2, 4096 }), nil, "no [tuning] Best line"},
		{"https://github.com/deepseek-ai/DeepEP/issues/75, the second host of two", `
Allocating buffer size: 2115.111296 MB ...
[rank 10] Dispatch + combine bandwidth: 27.38 GB/s, avg_t=805.21 us, min_t=791.81 us, max_t=820.42 us
[rank 11] Dispatch + combine bandwidth: 27.38 GB/s, avg_t=805.34 us, min_t=795.87 us, max_t=819.01 us
[rank 12] Dispatch + combine bandwidth: 27.40 GB/s, avg_t=804.79 us, min_t=778.53 us, max_t=823.58 us
[rank 9] Dispatch + combine bandwidth: 27.52 GB/s, avg_t=801.18 us, min_t=685.22 us, max_t=863.49 us
[rank 8] Dispatch + combine bandwidth: 27.53 GB/s, avg_t=800.91 us, min_t=674.40 us, max_t=812.06 us
[rank 13] Dispatch + combine bandwidth: 27.52 GB/s, avg_t=801.07 us, min_t=682.46 us, max_t=854.40 us
[rank 14] Dispatch + combine bandwidth: 27.46 GB/s, avg_t=802.90 us, min_t=740.06 us, max_t=851.87 us
[rank 15] Dispatch + combine bandwidth: 27.51 GB/s, avg_t=801.59 us, min_t=732.38 us, max_t=813.70 us
`, with(func(g *Given) { g.Tokens = 128 }), nil, "8 of 16 ranks, so it may be the output of one of several hosts; give --nodes"},
		{"the same with --nodes", `
[rank 8] Dispatch + combine bandwidth: 27.53 GB/s, avg_t=800.91 us, min_t=674.40 us, max_t=812.06 us
[rank 15] Dispatch + combine bandwidth: 27.51 GB/s, avg_t=801.59 us, min_t=732.38 us, max_t=813.70 us
`, with(func(g *Given) { g.Tokens, g.Nodes = 128, 2 }), []string{"pair fp8 deepep-ll: t128 r16 n2 801.59 us, uniform"}, ""},
		{"https://github.com/deepseek-ai/DeepEP/issues/75, internode lines without times", `
[tuning] SMs 24, NVL chunk 4, RDMA chunk 4: 19.33 GB/s (RDMA), 63.23 GB/s (NVL) 
[tuning] SMs 24, NVL chunk 4, RDMA chunk 8: 31.84 GB/s (RDMA), 104.16 GB/s (NVL) 
`, with(func(g *Given) { g.Ranks, g.Tokens, g.Nodes = 16, 4096, 2 }), nil, "no [tuning] Best line"},
		{"https://github.com/sgl-project/sgl-kernel-npu/pull/176, 256 tokens; no line gives this number", `
[rank 3] Dispatch bandwidth: 46.71 GB/s, avg_t=324.79 us | Combine bandwidth: 67.91 GB/s, avg_t=432.32 us
[rank 5] Dispatch bandwidth: 49.81 GB/s, avg_t=304.60 us | Combine bandwidth: 64.90 GB/s, avg_t=452.38 us
[rank 0] Dispatch bandwidth: 49.19 GB/s, avg_t=308.45 us | Combine bandwidth: 65.34 GB/s, avg_t=449.38 us
[rank 2] Dispatch bandwidth: 49.79 GB/s, avg_t=304.74 us | Combine bandwidth: 64.76 GB/s, avg_t=453.40 us
`, with(func(g *Given) { g.Ranks, g.Tokens, g.Nodes = 8, 128, 1 }), nil, "= 2048 selections of 7408 bytes, but 128 tokens with top-8 make 1024"},
		{"the same with --tokens 256", `
[rank 3] Dispatch bandwidth: 46.71 GB/s, avg_t=324.79 us | Combine bandwidth: 67.91 GB/s, avg_t=432.32 us
[rank 5] Dispatch bandwidth: 49.81 GB/s, avg_t=304.60 us | Combine bandwidth: 64.90 GB/s, avg_t=452.38 us
`, with(func(g *Given) { g.Ranks, g.Tokens, g.Nodes = 8, 256, 1 }), []string{"dispatch fp8 deepep-ll: t256 r8 n1 324.79 us, uniform", "combine fp8 deepep-ll: t256 r8 n1 452.38 us, uniform"}, ""},
		{"https://github.com/deepseek-ai/DeepEP/pull/425, ten selections masked", `
[rank 2] Dispatch bandwidth: 203.70 GB/s, avg_t=36.88 us | Combine bandwidth: 215.93 GB/s, avg_t=67.32 us
[rank 1] Dispatch bandwidth: 202.55 GB/s, avg_t=37.09 us | Combine bandwidth: 216.80 GB/s, avg_t=67.05 us
[rank 6] Dispatch bandwidth: 203.53 GB/s, avg_t=36.91 us | Combine bandwidth: 214.65 GB/s, avg_t=67.72 us
[rank 3] Dispatch bandwidth: 204.55 GB/s, avg_t=36.72 us | Combine bandwidth: 214.41 GB/s, avg_t=67.80 us
[rank 5] Dispatch bandwidth: 208.09 GB/s, avg_t=36.10 us | Combine bandwidth: 212.45 GB/s, avg_t=68.42 us
`, with(func(g *Given) { g.Ranks, g.Tokens, g.Nodes = 8, 128, 1 }), []string{"dispatch fp8 deepep-ll: t128 r8 n1 37.09 us, uniform", "combine fp8 deepep-ll: t128 r8 n1 68.42 us, uniform"}, ""},
		{"https://github.com/deepseek-ai/DeepEP/issues/208, the last host of three, 64 tokens", `
[rank 21] Dispatch bandwidth: 5.91 GB/s, avg_t=629.40 us | Combine bandwidth: 32.51 GB/s, avg_t=221.39 us
[rank 22] Dispatch bandwidth: 5.90 GB/s, avg_t=630.74 us | Combine bandwidth: 32.71 GB/s, avg_t=220.01 us
[rank 19] Dispatch bandwidth: 5.93 GB/s, avg_t=626.89 us | Combine bandwidth: 32.08 GB/s, avg_t=224.35 us
[rank 18] Dispatch bandwidth: 6.02 GB/s, avg_t=617.62 us | Combine bandwidth: 30.95 GB/s, avg_t=232.56 us
`, with(func(g *Given) { g.Ranks, g.Experts, g.Tokens, g.Nodes = 24, 288, 64, 3 }), []string{"dispatch fp8 deepep-ll: t64 r24 n3 630.74 us, uniform", "combine fp8 deepep-ll: t64 r24 n3 232.56 us, uniform"}, ""},
		{"https://github.com/deepseek-ai/DeepEP/pull/456, a fork that names its times", `
[tuning] SMs 24, NVL chunk 40, RDMA chunk 4, transmit: 4489.00 us, notify: 1130.00 us, BW: 52.06 GB/s (RDMA), 96.95 GB/s (NVL) 
[tuning] SMs 24, NVL chunk 40, RDMA chunk 8, transmit: 4490.00 us, notify: 1854.00 us, BW: 52.04 GB/s (RDMA), 96.93 GB/s (NVL) 
[tuning] Best dispatch (BF16): SMs 24, NVL chunk 40, RDMA chunk 4, transmit: 4489.00 us, notify: 1130.00 us, BW: 52.06 GB/s (RDMA), 96.95 GB/s (NVL)
`, with(func(g *Given) { g.Ranks, g.Tokens, g.Nodes = 32, 4096, 4 }), []string{"dispatch bf16 deepep-normal:chunk=40,rdma_chunk=4,sms=24 t4096 r32 n4 5619.00 us, uniform", "dispatch bf16 deepep-normal:chunk=40,rdma_chunk=8,sms=24 t4096 r32 n4 6344.00 us, uniform"}, ""},
		{"https://github.com/awslabs/awsome-distributed-ai/pull/1234, an excerpt without the case's options", `
   - EP:   4/16 | expanded dispatch: 115 GB/s (SO), 376 GB/s (SU), 1064.000 us, 400593024 bytes | copy: 4791 GB/s, 187.879 us
   - EP:   5/16 | expanded dispatch: 115 GB/s (SO), 377 GB/s (SU), 1065.000 us, 401401728 bytes | copy: 3949 GB/s, 228.422 us
`, with(func(g *Given) { g.Tokens, g.Nodes = 8192, 2 }), nil, "rank 4, expanded dispatch: no line before it says whether the dispatch is FP8"},
		{"https://github.com/deepseek-ai/DeepEP/pull/605, a version that prints 0 and 1", `
 > Testing with do_handle_copy=0, expert_alignment=1, use_fp8_dispatch=1, num_bias=2, with_previous_event=1, async_with_compute_stream=1, allocate_on_comm_stream=1 ...
   * EP:   3/4 | dispatch: 0 GB/s (SO), 852 GB/s (SU), 296.789 us, 252933184 bytes | copy: 5654 GB/s, 89.467 us
   * EP:   0/4 | dispatch: 0 GB/s (SO), 852 GB/s (SU), 296.492 us, 252701120 bytes | copy: 5239 GB/s, 96.465 us
   * EP:   2/4 | dispatch: 0 GB/s (SO), 850 GB/s (SU), 296.938 us, 252328160 bytes | copy: 5004 GB/s, 100.841 us
   * EP:   1/4 | dispatch: 0 GB/s (SO), 852 GB/s (SU), 296.698 us, 252808864 bytes | copy: 5128 GB/s, 98.600 us
`, with(func(g *Given) { g.Tokens = 8192 }), []string{"dispatch fp8 deepep-v2: t8192 r4 n1 397.78 us, uniform"}, ""},
		{"https://github.com/deepseek-ai/DeepEP/issues/590, two hosts, every call printed by NVLink and by RDMA bytes", `
=== Torch API Benchmark (BF16, 16 ranks) ===
dispatch (BF16):                                 136.54 GB/s (NVL), t: 2884.3 us [min=2884.1, max=2884.6], nvl_recv_bytes: 393.84 MB
dispatch (BF16):                                 40.60 GB/s (RDMA), t: 2884.3 us [min=2884.1, max=2884.6], rdma_send_bytes: 117.11 MB
combine:                                         128.92 GB/s (NVL), t: 3054.8 us [min=3054.6, max=3055.0], combine_send_bytes: 393.84 MB
combine:                                         38.34 GB/s (RDMA), t: 3054.8 us [min=3054.6, max=3055.0], rdma_recv_bytes: 117.11 MB
dispatch+permute (BF16):                         126.49 GB/s (NVL), t: 3113.6 us [min=3113.3, max=3113.8], nvl_recv_bytes: 393.84 MB
`, with(func(g *Given) { g.Tokens, g.Nodes = 4096, 2 }), []string{"dispatch bf16 hybrid-ep: t4096 r16 n2 2884.60 us, uniform", "combine bf16 hybrid-ep: t4096 r16 n2 3055.00 us, uniform", "dispatch bf16 hybrid-ep-permute: t4096 r16 n2 3113.80 us, uniform"}, ""},
		{"the same without its header", `
dispatch (BF16):                                 136.54 GB/s (NVL), t: 2884.3 us [min=2884.1, max=2884.6], nvl_recv_bytes: 393.84 MB
`, with(func(g *Given) { g.Tokens, g.Nodes = 4096, 2 }), nil, "Torch API Benchmark (FP8 or BF16, N ranks)"},
		{"https://github.com/deepseek-ai/DeepEP/pull/634, srun's prefixes and kernel times alone", `
0: === Kernel Benchmark (BF16, 32 ranks) ===
0:
0:   Non-fused:  dispatch_kernel only  |  combine_kernel only
0: dispatch kernel (BF16)(NVL):                     223.20 GB/s, avg_t=1917.7 us [min=1754.0, max=2018.0]
0: combine kernel(NVL):                             212.85 GB/s, avg_t=2010.9 us [min=1936.0, max=2175.0]
`, with(func(g *Given) { g.Tokens, g.Nodes = 4096, 4 }), nil, "only kernel times (Kernel Benchmark), but a call also scans the routing"},
		{"https://github.com/microsoft/mscclpp/pull/87, a table without types", `
#                                    in-place                       out-of-place          
#       size         count     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       
  1073741824      33554432                                    7186.2  149.42  130.74      0
`, v3, nil, "the file has none of the known formats; name its format, one of collectivex,"},
		{"https://github.com/openucx/ucc/pull/223, another benchmark's table", `
Collective:             Alltoall
       Count        Size                Time, us                           Bandwidth, GB/s
                                 avg         min         max         avg         min         max
       65536      262144       76.46       72.62       82.30       24.00       25.27       22.30
`, v3, nil, "none of the known formats"},
	} {
		results, _, warnings, err := Read(strings.NewReader(strings.TrimPrefix(c.text, "\n")), "auto", c.g)
		said := strings.Join(warnings, "\n")
		if err != nil {
			said += err.Error()
		}
		if len(c.want) > 0 && err != nil || !strings.Contains(said, c.says) {
			t.Errorf("%s: said %q, want %q", c.from, said, c.says)
		}
		for _, w := range c.want {
			if !slices.Contains(summary(results), w) {
				t.Errorf("%s: no %q in\n%s", c.from, w, strings.Join(summary(results), "\n"))
			}
		}
		if len(c.want) == 0 && err == nil {
			t.Errorf("%s: was read as\n%s", c.from, strings.Join(summary(results), "\n"))
		}
	}
}
