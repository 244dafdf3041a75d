package peers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// fmt4 formats like fmt4 of bench_comm.py.
func fmt4(x float64) string {
	if x == 0 {
		return "0.000"
	}
	d := int(math.Floor(math.Log10(math.Abs(x)))) + 1
	return fmt.Sprintf("%.*f", max(0, 4-d), x)
}

// moonRow holds the results of bench_one of bench_comm.py.
type moonRow struct {
	ep, hidden, topK, capacity, tokens, experts int
	sigma, load                                 float64
	us                                          [8]float64 // planning; dispatch forward and backward; epilogues; prologues; combine forward and backward; prefetch
	failed                                      bool
}

func standardMoon(r *rand.Rand) []moonRow {
	var rows []moonRow
	for _, ep := range []int{4, 8} {
		m := moonRow{ep: ep, hidden: 7168, topK: 8, capacity: 8192, tokens: 8192 >> r.IntN(4), experts: 896, sigma: 1, load: 4.321}
		for i := range m.us {
			m.us[i] = 100 * (1 + 5*r.Float64())
		}
		rows = append(rows, m)
	}
	return rows
}

func (m moonRow) speed(us float64) float64 {
	return float64(m.tokens*m.topK*m.hidden*2) / us * 1e6 / 1e9
}

// moonTable returns the table that bench_comm.py prints.
func moonTable(rows []moonRow) string {
	var b strings.Builder
	b.WriteString("=== bench_comm starting: world_size=8 ===\nhostname=node-a local_rank=0\nSweeping 2 configs...\n")
	fmt.Fprintf(&b, "%3s %5s %3s %5s %5s %4s %5s %5s %6s %6s %7s %9s %9s %9s %9s %9s %9s %9s %9s %9s %7s %7s %7s %7s %7s %9s %9s %8s %8s %8s %8s %8s %8s %8s %8s %8s %8s\n",
		"ep", "H", "K", "S", "s", "E", "Hp", "unb_r", "mx_rcv", "mx_snd", "mx/mean", "plan_us", "d_fwd", "d_bwd", "e_fwd", "e_bwd", "cp_fwd", "cp_bwd", "c_fwd", "c_bwd",
		"NvS", "dedup%", "grps", "dups", "zpad", "pf", "gr", "DfGB/s", "DbGB/s", "CfGB/s", "CbGB/s", "EfTotGB", "EbTotGB", "CpFTot", "CpBTot", "PfGB/s", "GrGB/s")
	for _, m := range rows {
		fmt.Fprintf(&b, "%3d %5d %3d %5d %5d %4d %5d %5.2f ", m.ep, m.hidden, m.topK, m.capacity, m.tokens, m.experts, 3072, m.sigma)
		if m.failed {
			b.WriteString("FAILED\n")
			continue
		}
		fmt.Fprintf(&b, "%6d %6d %7.3f ", 12, 14, m.load)
		for _, us := range []float64{m.us[0], m.us[1], m.us[2], m.us[3], m.us[3], m.us[4], m.us[4], m.us[5], m.us[6]} {
			fmt.Fprintf(&b, "%9s ", fmt4(us))
		}
		fmt.Fprintf(&b, "%7d %6.2f%% %7d %7d %7d %9s %9s ", 70000, 33.1, 900, 1100, 64, fmt4(m.us[7]), fmt4(m.us[7]))
		for _, v := range []float64{m.speed(m.us[1]), m.speed(m.us[2]), m.speed(m.us[5]), m.speed(m.us[6]), 1, 1, 1, 1, 1, 1} {
			fmt.Fprintf(&b, "%8s ", fmt4(v))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// moonCSV returns the file that bench_comm.py writes with --out.
func moonCSV(rows []moonRow) string {
	var b strings.Builder
	b.WriteString("ep,H,K,S,s,E,epn,Hp,unbalance_ratio,max_recv,max_send,load_max_mean,planning_us,dispatch_fwd_us,dispatch_bwd_us,epilogue_fwd_us,epilogue_bwd_us,combine_prologue_fwd_us,combine_prologue_bwd_us,combine_fwd_us,combine_bwd_us,NvS,dedup_ratio,dup_group_count,dup_loff_count,zero_pad_rows,prefetch_us,grad_reduce_us,dispatch_fwd_GBps,dispatch_bwd_GBps,combine_fwd_GBps,combine_bwd_GBps,epilogue_fwd_total_GBps,epilogue_bwd_total_GBps,combine_prologue_fwd_total_GBps,combine_prologue_bwd_total_GBps,prefetch_GBps,grad_reduce_GBps\r\n")
	for _, m := range rows {
		fmt.Fprintf(&b, "%d,%d,%d,%d,%d,%d,%d,3072,%.2f,", m.ep, m.hidden, m.topK, m.capacity, m.tokens, m.experts, m.experts/m.ep, m.sigma)
		if m.failed {
			b.WriteString(strings.Repeat(",", 28) + "\r\n")
			continue
		}
		fmt.Fprintf(&b, "12,14,%.3f", m.load)
		for _, us := range []float64{m.us[0], m.us[1], m.us[2], m.us[3], m.us[3], m.us[4], m.us[4], m.us[5], m.us[6]} {
			b.WriteString("," + fmt4(us))
		}
		fmt.Fprintf(&b, ",70000,0.3310,900,1100,64,%s,%s", fmt4(m.us[7]), fmt4(m.us[7]))
		for _, v := range []float64{m.speed(m.us[1]), m.speed(m.us[2]), m.speed(m.us[5]), m.speed(m.us[6]), 1, 1, 1, 1, 1, 1} {
			b.WriteString("," + fmt4(v))
		}
		b.WriteString("\r\n")
	}
	return b.String()
}

// TestMoonEP: a dispatch takes 812.3 + 120.4 = 932.7 us with its epilogue. A combine takes 140.2 + 905.1 = 1045.3 us
// with its prologue.
func TestMoonEP(t *testing.T) {
	rows := []moonRow{
		{ep: 8, hidden: 7168, topK: 8, capacity: 8192, tokens: 4096, experts: 896, sigma: 1, load: 4.321, us: [8]float64{55.5, 812.3, 801, 120.4, 140.2, 905.1, 950, 300}},
		{ep: 4, hidden: 7168, topK: 8, capacity: 8192, tokens: 4096, experts: 896, sigma: 1, failed: true},
	}
	g := Given{Routing: "lognormal:maxmean=4.321"}
	want := []string{"dispatch bf16 moonep: t4096 r8 n1 932.70 us, lognormal:maxmean=4.321", "combine bf16 moonep: t4096 r8 n1 1045.30 us, lognormal:maxmean=4.321"}
	for name, text := range map[string]string{"table": moonTable(rows), "CSV": moonCSV(rows)} {
		results, used, warnings, err := Read(strings.NewReader(text), "auto", g)
		if err != nil || used != "moonep" || len(warnings) != 1 || !strings.Contains(warnings[0], "ep 4, H 7168, K 8 left out: the benchmark failed there") {
			t.Fatalf("%s: %s, %q, %v", name, used, warnings, err)
		}
		if got := summary(results); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: %s", name, strings.Join(got, "\n"))
		}
		if _, _, _, err := Read(strings.NewReader(text), "auto", Given{}); err == nil || !strings.Contains(err.Error(), "busiest expert's load / mean: 4.321); give --routing") {
			t.Errorf("%s without a routing: %v", name, err)
		}
		if _, _, _, err := Read(strings.NewReader(strings.ReplaceAll(text, "812.3", "412.3")), "auto", g); err == nil || !strings.Contains(err.Error(), "469762048 bytes in 412.3 us are 1139 GB/s, but the row says 578.3 GB/s") {
			t.Errorf("%s with another time: %v", name, err)
		}
	}
	// 469,762,048 bytes in 812.3 us are 578.3 GB/s
	for speed, fine := range map[string]bool{"578.3": true, "578.2": false, "578.4": false, "577.9": false, "578.7": false} {
		if _, _, _, err := Read(strings.NewReader(strings.ReplaceAll(moonCSV(rows), "578.3", speed)), "auto", g); (err == nil) != fine {
			t.Errorf("%s GB/s: %v", speed, err)
		}
	}
	if _, _, _, err := Read(strings.NewReader(strings.Replace(moonCSV(rows), ",896,112,", ",896,100,", 1)), "auto", g); err == nil || !strings.Contains(err.Error(), "100 experts on each of 8 ranks are 800 experts, but the row says 896") {
		t.Errorf("experts of a rank: %v", err)
	}
}

func TestMoonEPFailed(t *testing.T) {
	rows := []moonRow{{ep: 4, hidden: 7168, topK: 8, capacity: 8192, tokens: 4096, experts: 896, sigma: 1, failed: true}}
	for name, text := range map[string]string{"table": moonTable(rows), "CSV": moonCSV(rows)} {
		if _, _, _, err := Read(strings.NewReader(text), "auto", Given{}); err == nil || !strings.Contains(err.Error(), "no row with a time; ep 4, H 7168, K 8 left out: the benchmark failed there") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMoonEPBesideDeepEP: a maxvio of 1 means an imbalance of 2.
func TestMoonEPBesideDeepEP(t *testing.T) {
	var b strings.Builder
	speed := func(us float64) float64 { return 131072 * 8 * 7168 * 2 / (us * 1e-6) / 1e9 }
	for lib, us := range map[string]float64{"moonep": 26000, "v2": 31000} {
		fmt.Fprintf(&b, "%8s ep=%d E=%d H=%d K=%d sigma=%.5f: maxvio=%6.2f | plan %6.1f us (%4.1f%%) | d_f %7.1f us (%5.0f GB/s) | d_b %7.1f us (%5.0f GB/s) | c_f %7.1f us (%5.0f GB/s) | c_b %7.1f us (%5.0f GB/s) | pf %6.1f us (%4.0f GB/s, %4.1f%%) [prepare 0.10s ops 1.00s]\n",
			lib, 8, 384, 7168, 8, 0.5, 1.0, 100.0, 0.4, us, speed(us), us, speed(us), us+500, speed(us+500), us, speed(us), 900.0, 400.0, 3.0)
	}
	_, _, _, err := Read(strings.NewReader(b.String()), "auto", Given{Tokens: 131072})
	if err == nil || !strings.Contains(err.Error(), "lognormal:maxmean=2") {
		t.Errorf("%v", err)
	}
	results, used, _, err := Read(strings.NewReader(b.String()), "auto", Given{Tokens: 131072, Routing: "lognormal:maxmean=2"})
	if err != nil || used != "moonep" || len(results) != 4 {
		t.Fatalf("%s, %d results, %v", used, len(results), err)
	}
	for _, want := range []string{"dispatch bf16 moonep: t131072 r8 n1 26000.00 us", "combine bf16 deepep-v2-expand: t131072 r8 n1 31500.00 us"} {
		if got := strings.Join(summary(results), "\n"); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if _, _, _, err := Read(strings.NewReader(b.String()), "auto", Given{Tokens: 65536, Routing: "uniform"}); err == nil {
		t.Error("the bandwidths of 131,072 tokens were accepted with --tokens 65536")
	}
}
