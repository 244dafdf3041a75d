package peers

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/testfile"
)

func TestFixturesFollowTheWriters(t *testing.T) {
	two := standardNCCL()
	two.hosts, two.gpus, two.prefix = []string{"node-a", "node-b"}, 1, "[1,0]<stdout>:"
	mpi := standardNCCL()
	mpi.hosts, mpi.gpus = strings.Fields(strings.Repeat("node-a ", 8)+strings.Repeat("node-b ", 8)), 1
	wrong := standardNCCL()
	wrong.wrong[1] = 3
	inter := standardNormalMode()
	inter.ranks, inter.hosts, inter.groups = 16, 2, 2
	inter.received, inter.sent = 23300, 8180
	for name, text := range map[string]string{
		"nccl.txt": standardNCCL().text(), "nccl-prefix.txt": two.text(), "nccl.json": wrong.json(), "nccl-mpi.json": mpi.json(),
		"deepep-intranode.txt": standardNormalMode().text(), "deepep-internode.txt": inter.text(), "deepep-low-latency.txt": standardLowLatency().text(),
	} {
		testfile.Golden(t, filepath.Join("testdata", name), []byte(text))
	}
}

// changeOne multiplies or divides one of the figures by 1.05 or more, and keeps its number of decimals.
func changeOne(r *rand.Rand, text string, figures *regexp.Regexp) string {
	all := figures.FindAllStringSubmatchIndex(text, -1)
	m := all[r.IntN(len(all))]
	group := 1 + r.IntN(len(m)/2-1)
	from, to := m[2*group], m[2*group+1]
	var v float64
	fmt.Sscan(text[from:to], &v)
	factor := 1.05 + 2*r.Float64()
	if r.IntN(2) == 0 {
		factor = 1 / factor
	}
	_, decimals, _ := strings.Cut(text[from:to], ".")
	return text[:from] + fmt.Sprintf("%.*f", len(decimals), v*factor) + text[to:]
}

// TestAChangedFigureIsNoticed: for 95 % of 200 random logs with one changed figure, the importer refuses or warns.
func TestAChangedFigureIsNoticed(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	given := Given{Hidden: 7168, Experts: 256, TopK: 8}
	for _, c := range []struct {
		format  string
		given   Given
		log     func() string
		figures string
	}{
		{"nccl", given, func() string { return randomNCCL(r).text() }, `(?m)^\s+(\d+)\s+(\d+)\s+bfloat16\s+none\s+-1\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)`},
		{"nccl-json", given, func() string { return randomNCCL(r).json() }, `"size":(\d+),"count":(\d+).*?"out_of_place":\{"time":([\d.]+),"alg_bw":([\d.]+),"bus_bw":([\d.]+)`},
		{"deepep", Given{Ranks: 8, Experts: 256}, func() string {
			n := standardNormalMode()
			n.rand, n.tokens = r, 512<<r.IntN(4)
			n.received = float64(n.tokens)*DistinctRanks(8, 256, 8) + r.NormFloat64()*20
			return n.text()
		}, `SMs 24, NVL chunk \d+[,:] ([\d.]+) GB/s \(NVL\), (?:t: )?([\d.]+) us`},
		{"deepep", Given{Hidden: 7168, Experts: 256, TopK: 8, Tokens: 128}, func() string {
			l := standardLowLatency()
			l.rand, l.masked = r, r.IntN(11)
			return l.text()
		}, `bandwidth: ([\d.]+) GB/s, avg_t=([\d.]+) us`},
		{"rccl", given, func() string { return rcclCSV(r) }, `1,\d+,(\d+),1,(\d+),"bfloat16","none",0,([\d.]+),([\d.]+),([\d.]+),`},
		{"collectivex", Given{}, func() string { return collectiveXResult(r) }, `"combine":\{"availability":"measured","percentiles_us":\{"p50":([\d.]+).*?"dispatch":\{"availability":"measured","percentiles_us":\{"p50":([\d.]+).*?"roundtrip":\{"availability":"measured","percentiles_us":\{"p50":([\d.]+).*?"global_tokens":(\d+),"byte_provenance":\{"combine":\{"activation_data_bytes":(\d+).*?"token_rate_at_latency_percentile":\{"p50":([\d.]+)\},"tokens_per_rank":(\d+)`},
		{"moonep", Given{Routing: "uniform"}, func() string { return moonCSV(standardMoon(r)) }, `(?m)^\d+,(\d+),8,8192,(\d+),896,(\d+),3072,1.00,12,14,4.321,[\d.]+,([\d.]+),[\d.]+,[\d.]+,[\d.]+,[\d.]+,[\d.]+,([\d.]+),[\d.]+,70000,0.3310,900,1100,64,[\d.]+,[\d.]+,([\d.]+),[\d.]+,([\d.]+)`},
		{"hybrid-ep", Given{Experts: 64, TopK: 8, Hidden: 7168, Tokens: 4096}, func() string { return hybridLog() }, `([\d.]+) GB/s \(NVL\), t: ([\d.]+) us \[min=[\d.]+, max=[\d.]+\], \w+: ([\d.]+) MB`},
		{"deepep-v2", Given{}, func() string { return v2Log(1, 8, r.IntN(2) == 0, 400+200*r.Float64()) }, `(\d+) GB/s \(SU\), ([\d.]+) us, (\d+) bytes`},
		{"mooncake", Given{}, func() string { return randomMooncake(r) }, `"world_size": (\d+).*"num_tokens": (\d+)[^$]*"end_to_end_latency_ms": \{.*"mean": ([\d.]+)[^$]*"tokens_per_second": ([\d.]+)`},
		{"aiconfigurator", Given{}, func() string { return randomLowLatencyTable(r) }, `(?m)256,([\d.]+),([\d.]+),([\d.]+),([\d.]+)$`},
		{"aiconfigurator", Given{}, func() string { return randomA2ATable(r) }, `(?m)([\d.]+),([\d.]+),([\d.]+)$`},
		{"mori", Given{Experts: 256}, func() string { return randomMori(r) }, `"num_tokens": (\d+).*"bandwidth_gbps": ([\d.]+), "latency_us": ([\d.]+)`},
	} {
		pattern := regexp.MustCompile(c.figures)
		noticed := 0
		const logs = 200
		for range logs {
			text := c.log()
			_, used, before, err := Read(strings.NewReader(text), "auto", c.given)
			if err != nil || used != c.format || len(withoutReasons(before)) > 0 {
				t.Fatalf("%s: a correct log read as %s: %v, %q\n%s", c.format, used, err, before, text)
			}
			if _, _, warnings, err := Read(strings.NewReader(changeOne(r, text, pattern)), "auto", c.given); err != nil || len(withoutReasons(warnings)) > 0 {
				noticed++
			}
		}
		if noticed*100 < 95*logs {
			t.Errorf("%s, %s: %d of %d changed figures were noticed, want 95 %%", c.format, c.figures[:20], noticed, logs)
		}
	}
}

func withoutReasons(warnings []string) []string {
	return slices.DeleteFunc(warnings, func(w string) bool {
		return strings.HasPrefix(w, "pair_period, stage and isolated_sum") || strings.HasPrefix(w, "end_to_end_latency_ms left out")
	})
}

func randomMooncake(r *rand.Rand) string {
	tokens, ms := 1+r.IntN(4096), 0.2+r.Float64()
	text := strings.Replace(mooncakeJSON, `"num_tokens": 128`, fmt.Sprintf(`"num_tokens": %d`, tokens), 1)
	text = strings.Replace(text, `"p999": 0.5, "mean": 0.5`, fmt.Sprintf(`"p999": 2, "mean": %.9f`, ms), 1)
	return strings.Replace(text, "1024000.0", fmt.Sprintf("%.9f", float64(4*tokens)/ms*1e3), 1)
}

// randomLowLatencyTable returns rows of wideep_deepep_ll. The formula of the bandwidth is from test_low_latency.py.
func randomLowLatencyTable(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString("framework,version,device,op_name,kernel_source,node_num,hidden_size,num_token,num_topk,num_experts,combine_avg_t_us,combine_bandwidth_gbps,dispatch_avg_t_us,dispatch_bandwidth_gbps\n")
	for range 3 {
		tokens, c, d := 1+r.IntN(512), 10+100*r.Float64(), 10+100*r.Float64()
		fmt.Fprintf(&b, "sglang,0.5.12,NVIDIA H200,ll,deepep,1,7168,%d,8,256,%.3f,%.6f,%.3f,%.6f\n", tokens, c, float64(tokens*8*14336)/c/1e3, d, float64(tokens*8*7408)/d/1e3)
	}
	return b.String()
}

// randomA2ATable returns rows of moe_a2a_perf.
func randomA2ATable(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString("framework,version,device,op_name,kernel_source,comm_backend,phase,comm_dtype,ep_size,node_num,hidden_size,topk,num_experts,num_tokens,sms,transmit_us,notify_us,latency\n")
	for range 3 {
		transmit, notify := 100+900*r.Float64(), 20+50*r.Float64()
		fmt.Fprintf(&b, "SGLang,0.5.12,NVIDIA H200,moe_a2a,deepep,deepep_ht,dispatch,default,8,1,7168,8,256,%d,20,%.2f,%.2f,%.2f\n", 1+r.IntN(4096), transmit, notify, transmit+notify)
	}
	return b.String()
}

func randomMori(r *rand.Rand) string {
	tokens, us := 64+r.IntN(4096), 30+500*r.Float64()
	return fmt.Sprintf(`{"version": "1.0", "gpu_arch": "gfx942", "gpu_model": "mi300x", "kernel_type": "IntraNode", "ep_size": 8, "phase": "dispatch", "rules": [
{"dtype": "bf16", "num_tokens": %d, "hidden_dim": 7168, "topk": 8, "block_num": 80, "rdma_block_num": 0, "warp_per_block": 16, "bandwidth_gbps": %.2f, "latency_us": %.2f}]}`,
		tokens, float64(tokens)*DistinctRanks(8, 256, 8)*14336/us/1e3, us)
}

func randomNCCL(r *rand.Rand) ncclRun {
	n := standardNCCL()
	n.gpus = []int{2, 4, 8}[r.IntN(3)]
	n.tokens = []int{1 + r.IntN(64), 128 + r.IntN(4096)}
	slow := 20 + 100*r.Float64()
	n.us = func(size int64) float64 { return slow + float64(size)/(1e5+2e5*r.Float64()) }
	fixed := map[int64]float64{}
	us := n.us
	n.us = func(size int64) float64 {
		if fixed[size] == 0 {
			fixed[size] = us(size)
		}
		return fixed[size]
	}
	return n
}

// TestHosts: the number of hosts comes from --nodes, or from host names.
func TestHosts(t *testing.T) {
	ll := func(first, ranks int) string {
		l := standardLowLatency()
		l.first, l.ranks = first, ranks
		return l.text()
	}
	two := standardNCCL()
	two.hosts = []string{"node-a", "node-b"}
	unnamed := standardNCCL()
	unnamed.gpus, unnamed.withoutReport = 16, true
	shape := Given{Hidden: 7168, Experts: 256, TopK: 8, Tokens: 128}
	for _, c := range []struct {
		name, text      string
		nodes, ranks    int
		want, ranksWant int // 0 for an error
		says            string
	}{
		{"names", two.text(), 0, 0, 2, 16, ""},
		{"names in JSON", two.json(), 0, 0, 2, 16, ""},
		{"flag over names", two.text(), 4, 0, 4, 16, "--nodes 4 is used; the file names 2 hosts"},
		{"16 ranks without names", unnamed.text(), 0, 0, 0, 0, "give --nodes"},
		{"16 ranks without names, flag", unnamed.text(), 2, 0, 2, 16, ""},
		{"8 ranks that all printed", ll(0, 8), 0, 0, 1, 8, ""},
		{"16 ranks", ll(0, 16), 0, 0, 0, 0, "the number of hosts of the 16 ranks is unknown; give --nodes"},
		{"16 ranks, flag", ll(0, 16), 2, 0, 2, 16, ""},
		{"the second host's log", ll(8, 16), 0, 0, 0, 0, "8 of 16 ranks"},
		{"the first host's log", ll(0, 8), 0, 16, 0, 0, "8 of 16 ranks"},
		{"the first host's log, flag", ll(0, 8), 2, 16, 2, 16, ""},
	} {
		g := shape
		g.Nodes, g.Ranks = c.nodes, c.ranks
		results, _, warnings, err := Read(strings.NewReader(c.text), "auto", g)
		if c.want == 0 {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %q", c.name, err, c.says)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if p := results[0].Problem; p.Nodes != c.want || p.Ranks != c.ranksWant || !strings.Contains(strings.Join(warnings, "; "), c.says) {
			t.Errorf("%s: %d hosts, %d ranks, want %d and %d; warnings %q", c.name, p.Nodes, p.Ranks, c.want, c.ranksWant, warnings)
		}
	}
}

// TestFlagsWin: a flag wins over the file, with a warning.
func TestFlagsWin(t *testing.T) {
	rows := "kernel,tokens,us,ranks\na,1,10,4\nb,2,20,4\n"
	shape := Given{Hidden: 512, Experts: 32, TopK: 4}
	g := shape
	g.Ranks = 8
	results, _, warnings, err := Read(strings.NewReader(rows), "auto", g)
	if err != nil || results[0].Problem.Ranks != 8 || len(warnings) != 1 || !strings.Contains(warnings[0], "--ranks 8 is used; the file says 4 (ranks)") {
		t.Errorf("%v, %v, %q", results, err, warnings)
	}
	g = shape
	g.Tokens = 16
	if _, _, _, err := Read(strings.NewReader(rows), "auto", g); err == nil || !strings.Contains(err.Error(), "--tokens 16: the file has several values, 1 and 2 (tokens)") {
		t.Errorf("got %v", err)
	}
	mixed := standardNormalMode().text() + standardLowLatency().text()
	results, _, warnings, err = Read(strings.NewReader(mixed), "auto", Given{Hidden: 7168, Experts: 256, TopK: 8, Ranks: 8, Tokens: 128})
	if err != nil || !strings.Contains(strings.Join(warnings, "; "), "--tokens 128") {
		t.Fatalf("%v, %q", err, warnings)
	}
	for _, r := range results {
		want := 128
		if strings.HasPrefix(r.Config.Kernel, "deepep-normal") {
			want = 4096
		}
		if r.Problem.Tokens != want {
			t.Errorf("%s: %d tokens, want %d", r.Config.Key(), r.Problem.Tokens, want)
		}
	}
	_, _, warnings, err = Read(strings.NewReader(mixed), "auto", Given{Experts: 256, Ranks: 8})
	if err != nil || !strings.Contains(strings.Join(warnings, "; "), "low-latency lines: the file does not give all values of its problem; give --topk, --tokens, --hidden") {
		t.Errorf("%v, %q", err, warnings)
	}
}
