package peers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// This file imitates the output of benchmarks. Its comments name the benchmarks' functions that print each format.

// ncclRun is an invented run of alltoall_perf.
type ncclRun struct {
	program       string
	hosts         []string // of each process
	gpus          int      // of each process
	tokens        []int
	hidden, topK  int
	us            func(size int64) float64
	prefix        string // of each line
	typeName      string
	typeSize      int64
	wrong         map[int]float64 // by index into tokens
	reduction     string
	withoutReport bool
}

func (r ncclRun) ranks() int { return len(r.hosts) * r.gpus }

// figures computes a row with the formulas of AlltoAllGetBw.
func (r ncclRun) figures(size int64) (count int64, time, algbw, busbw float64) {
	n := int64(r.ranks())
	count = size / r.typeSize / n
	time = r.us(size)
	algbw = float64(count*n*r.typeSize) / 1e9 / (time * 1e-6)
	return count, time, algbw, algbw * float64(n-1) / float64(n)
}

func (r ncclRun) sizes() (out []int64) {
	for _, t := range r.tokens {
		out = append(out, int64(t)*int64(r.topK)*int64(r.hidden)*2)
	}
	return out
}

// devices returns the lines of writeDeviceReport for each process.
func (r ncclRun) devices() (out [][]string) {
	for p, host := range r.hosts {
		var lines []string
		for i := range r.gpus {
			lines = append(lines, fmt.Sprintf("#  Rank %2d Group %2d Pid %6d on %10s device %2d [%04x:%02x:%02x] %s\n", p*r.gpus+i, 0, 4242+p, host, i, 0, 0x1b+i, 0, "NVIDIA H200"))
		}
		out = append(out, lines)
	}
	return out
}

// floatStr formats like getFloatStr of src/util.cu.
func floatStr(v float64, width int) string {
	for _, format := range []string{"%*.2f", "%*.1f", "%*.0f"} {
		if s := fmt.Sprintf(format, width, v); len(s) <= width {
			return s
		}
	}
	return fmt.Sprintf("%*.1e", width, v)
}

// text returns the table in the format of writeDeviceReport, writeResultHeader, writeBenchmarkLinePreamble,
// writeBenchmarkLineBody and writeResultFooter.
func (r ncclRun) text() string {
	var b strings.Builder
	sizes := r.sizes()
	b.WriteString("# nccl-tests version 2.17.8 nccl-headers=22907 nccl-library=22907\n")
	fmt.Fprintf(&b, "# Collective test starting: %s\n", r.program)
	fmt.Fprintf(&b, "# nThread %d nGpus %d minBytes %d maxBytes %d step: %d(%s) warmup iters: %d iters: %d agg iters: %d validation: %d graph: %d unalign: %d\n#\n",
		1, r.gpus, sizes[0], sizes[len(sizes)-1], 2, "factor", 1, 20, 1, 1, 0, 0)
	b.WriteString("# Using devices\n")
	for _, lines := range r.devices() {
		if !r.withoutReport {
			b.WriteString(strings.Join(lines, ""))
		}
	}
	b.WriteString("#\n")
	fmt.Fprintf(&b, "# %10s  %12s  %8s  %6s  %6s           out-of-place                       in-place          \n", "", "", "", "", "")
	fmt.Fprintf(&b, "# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s %*s\n", "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong", 0, "")
	fmt.Fprintf(&b, "# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s %*s\n", "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "", 0, "")
	redop := "none"
	if r.reduction != "" {
		redop = r.reduction
	}
	for i, size := range sizes {
		count, time, algbw, busbw := r.figures(size)
		fmt.Fprintf(&b, "%12d  %12d  %8s  %6s  %6s", size, count, r.typeName, redop, fmt.Sprintf("%6d", -1))
		fmt.Fprintf(&b, "  %7s  %6s  %6s  %6g", floatStr(time, 7), floatStr(algbw, 6), floatStr(busbw, 6), r.wrong[i])
		fmt.Fprintf(&b, "  %7s  %6s  %6s    N/A\n", floatStr(time, 7), floatStr(algbw, 6), floatStr(busbw, 6))
	}
	b.WriteString("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 3.4\n#\n")
	fmt.Fprintf(&b, "# Collective test concluded: %s\n", r.program)
	if r.prefix == "" {
		return b.String()
	}
	return r.prefix + strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\n", "\n"+r.prefix) + "\n"
}

// json returns the JSON file in the format of jsonOutputInit, writeDeviceReport and writeBenchmarkLineBody.
func (r ncclRun) json() string {
	var devices, results []string
	for p, host := range r.hosts {
		devices = append(devices, fmt.Sprintf(`{"rank":%d,"group":0,"pid":%d,"hostname":"%s","device":0,"device_hex":"0000:1b:00","device_info":"NVIDIA H200"}`, p*r.gpus, 4242+p, host))
	}
	for i, size := range r.sizes() {
		count, time, algbw, busbw := r.figures(size)
		results = append(results, fmt.Sprintf(`{"size":%d,"count":%d,"type":"%s","redop":"none","root":"    -1","out_of_place":{"time":%f,"alg_bw":%f,"bus_bw":%f,"nwrong":%f},"in_place":{"time":%f,"alg_bw":%f,"bus_bw":%f,"nwrong":null},"actual_iterations":20,"experiment_name":"%s"}`,
			size, count, r.typeName, time, algbw, busbw, r.wrong[i], time, algbw, busbw, r.program))
	}
	return fmt.Sprintf(`{"version":3,"start_time":"2026-01-05 10:00:00","args":[".\/build\/%s","-g","%d","-J","out.json"],"env":["LANG=C"],"nccl_version":22907,"config":{"nthreads":1,"ngpus":%d,"minimum_bytes":1,"maximum_bytes":1,"step_factor":2,"warmup_iters":1,"iterations":20,"aggregated_iterations":1,"validation":1,"graph":0,"blocking_collectives":"false","per_iter_timing":"false","per_iter_skip":0,"parallel_init":"false","devices":[%s]},"results":[%s],"out_of_bounds":{"count":0,"okay":"true"},"average_bus_bandwidth":{"bandwidth":3.400000,"okay":"unchecked"},"errors":[],"end_time":"2026-01-05 10:00:09"}`,
		r.program, r.gpus, r.gpus, strings.Join(devices, ","), strings.Join(results, ","))
}

func standardNCCL() ncclRun {
	return ncclRun{program: "alltoall_perf", hosts: []string{"node-a"}, gpus: 8, tokens: []int{1, 32, 128}, hidden: 7168, topK: 8, typeName: "bfloat16", typeSize: 2, wrong: map[int]float64{},
		us: func(size int64) float64 { return 35 + float64(size)/2e5 }}
}

// normalRun is an invented run of test_intranode.py, or of test_internode.py for several hosts.
type normalRun struct {
	ranks, hosts, experts, topK, groups, tokens, hidden int
	received                                            float64 // tokens that rank 0 receives
	sent                                                float64 // tokens that rank 0 sends
	rand                                                *rand.Rand
	bestOnly                                            bool
}

func standardNormalMode() normalRun {
	r := normalRun{ranks: 8, hosts: 1, experts: 256, topK: 8, tokens: 4096, hidden: 7168, rand: rand.New(rand.NewPCG(1, 2))}
	r.received = math.Round(float64(r.tokens) * DistinctRanks(r.ranks, r.experts, r.topK))
	return r
}

// text returns the lines of test_main.
func (r normalRun) text() string {
	var b strings.Builder
	groups := ""
	if r.hosts > 1 {
		groups = fmt.Sprintf(", num_topk_groups=%d", r.groups)
	}
	fmt.Fprintf(&b, "[config] num_tokens=%d, hidden=%d%s, num_topk=%d\n[layout] Kernel performance: %.3f ms\n\n", r.tokens, r.hidden, groups, r.topK, 0.05)
	b.WriteString("[testing] Running with BF16, without top-k (async=False, previous=False) ... passed\n\n")
	bf16 := r.received * float64(r.hidden) * 2
	fp8 := bf16 * (1 + 4.0/128) / 2
	for _, half := range []struct {
		name         string
		bytes, ratio float64
	}{{"dispatch (FP8)", fp8, (1 + 4.0/128) / 2}, {"dispatch (BF16)", bf16, 1}, {"combine", bf16, 1}} {
		best, chunk := math.Inf(1), 0
		for nvl := 4; nvl < 33; nvl += 4 {
			t := half.bytes / 1e9 / (280 + 60*r.rand.Float64())
			if t < best {
				best, chunk = t, nvl
			}
			if !r.bestOnly {
				b.WriteString(r.tuned(nvl, half.bytes, half.ratio, t))
			}
		}
		b.WriteString(r.best(half.name, chunk, half.bytes, half.ratio, best))
		b.WriteString("\n")
	}
	return b.String()
}

func (r normalRun) tuned(nvl int, bytes, ratio, t float64) string {
	if r.hosts > 1 {
		return fmt.Sprintf("[tuning] SMs %d, NVL chunk %d, RDMA chunk %d: %.0f + %.0f us, %.2f GB/s (RDMA), %.2f GB/s (NVL) \n", 24, nvl, 16, 40.0, t*1e6, r.sent*float64(r.hidden)*2*ratio/1e9/t, bytes/1e9/t)
	}
	return fmt.Sprintf("[tuning] SMs %d, NVL chunk %d: %.2f GB/s (NVL), %.2f us\n", 24, nvl, bytes/1e9/t, t*1e6)
}

func (r normalRun) best(name string, nvl int, bytes, ratio, t float64) string {
	comma, colon := ",", ""
	if name == "combine" {
		comma, colon = "", ":"
	}
	if r.hosts > 1 {
		end := ":"
		us := fmt.Sprintf("%.0f + %.0f us", 40.0, t*1e6)
		if name == "combine" {
			end, us = ",", fmt.Sprintf("%.2f + %.2f us", 40.0, t*1e6)
		}
		return fmt.Sprintf("[tuning] Best %s: SMs %d, NVL chunk %d, RDMA chunk %d%s %s, %.2f GB/s (RDMA), %.2f GB/s (NVL)\n", name, 24, nvl, 16, end, us, r.sent*float64(r.hidden)*2*ratio/1e9/t, bytes/1e9/t)
	}
	return fmt.Sprintf("[tuning] Best %s: SMs %d, NVL chunk %d%s%s %.2f GB/s (NVL), t: %.2f us\n", name, 24, nvl, comma, colon, bytes/1e9/t, t*1e6)
}

// lowLatencyRun is an invented run of test_low_latency.py.
type lowLatencyRun struct {
	ranks, first, tokens, topK, hidden, masked int
	rand                                       *rand.Rand
}

func standardLowLatency() lowLatencyRun {
	return lowLatencyRun{ranks: 8, tokens: 128, topK: 8, hidden: 7168, masked: 10, rand: rand.New(rand.NewPCG(3, 4))}
}

// text returns the lines of test_loop and test_main.
func (r lowLatencyRun) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Allocating buffer size: %v MB ...\n", 2116.290944)
	selections := float64(r.tokens*r.topK - r.masked)
	dispatch, combine := selections*llBytes(ep.Dispatch, r.hidden), selections*llBytes(ep.Combine, r.hidden)
	for rank := r.first; rank < r.ranks; rank++ {
		t := 110e-6 + 10e-6*r.rand.Float64()
		fmt.Fprintf(&b, "[rank %d] Dispatch + combine bandwidth: %.2f GB/s, avg_t=%.2f us, min_t=%.2f us, max_t=%.2f us\n", rank, (dispatch+combine)/1e9/t, t*1e6, t*1e6-3, t*1e6+4)
	}
	for rank := r.first; rank < r.ranks; rank++ {
		d, c := 35e-6+r.rand.Float64()*1e-6, 67e-6+r.rand.Float64()*1e-6
		fmt.Fprintf(&b, "[rank %d] Dispatch bandwidth: %.2f GB/s, avg_t=%.2f us | Combine bandwidth: %.2f GB/s, avg_t=%.2f us\n", rank, dispatch/1e9/d, d*1e6, combine/1e9/c, c*1e6)
	}
	for rank := r.first; rank < r.ranks; rank++ {
		fmt.Fprintf(&b, "[rank %d] Dispatch send/recv time: %.2f + %.2f us | Combine send/recv time: %.2f + %.2f us\n", rank, 10.2, 15.2+float64(rank)/10, 12.0, 40.0)
	}
	return b.String()
}
