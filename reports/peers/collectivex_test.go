package peers

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/testfile"
)

func collectiveXResult(r *rand.Rand) string {
	var rows []string
	ranks, hidden, topK := 8, 7168, 8
	for _, tokens := range []int{1 + r.IntN(32), 128 + r.IntN(2000)} {
		global := tokens * ranks
		routed := int(float64(global) * 5.295)
		times := func(mid float64) (p50 float64, text string) {
			p50 = mid * (1 + r.Float64()/10)
			return p50, fmt.Sprintf(`{"availability":"measured","percentiles_us":{"p50":%.12f,"p90":%.12f,"p95":%.12f,"p99":%.12f},"sample_count":512}`, p50, p50*1.002, p50*1.003, p50*1.004)
		}
		d, dispatch := times(60 + float64(tokens)/5)
		c, combine := times(70 + float64(tokens)/3)
		_, stage := "", `{"availability":"unavailable","percentiles_us":null,"sample_count":0}`
		rt, roundtrip := times(d + c)
		sum := fmt.Sprintf(`{"availability":"derived","percentiles_us":{"p50":%.12f,"p90":%.12f,"p95":%.12f,"p99":%.12f}}`, d+c, (d+c)*1.002, (d+c)*1.003, (d+c)*1.004)
		bytes := 2 * routed * hidden
		rows = append(rows, fmt.Sprintf(`{"components":{"combine":%s,"dispatch":%s,"isolated_sum":%s,"roundtrip":%s,"stage":%s},"correctness":{"passed":true},"global_tokens":%d,`+
			`"byte_provenance":{"combine":{"activation_data_bytes":%d,"scale_bytes":0,"total_logical_bytes":%d},"dispatch":{"activation_data_bytes":%d,"scale_bytes":0,"total_logical_bytes":%d}},`+
			`"logical_copies":{"routed":%d,"assignments":%d},"token_rate_at_latency_percentile":{"p50":%.6f},"tokens_per_rank":%d}`,
			combine, dispatch, sum, roundtrip, stage, global, bytes, bytes, bytes, bytes, routed, global*topK, float64(global)/(rt*1e-6), tokens))
	}
	return fmt.Sprintf(`{"record_type":"case-attempt","identity":{"case_factors":{"case":{"backend":"deepep-v2","ep":%d,"experts":256,"gpus_per_node":8,"hidden":%d,"mode":"low-latency","nodes":1,"precision":"bf16","routing":"uniform","topk":%d}},"case_id":"x"},"measurement":{"rows":[%s]},"outcome":{"reasons":[],"status":"success"}}`,
		ranks, hidden, topK, strings.Join(rows, ","))
}

// TestCollectiveX reads a result that CollectiveX's own functions wrote.
func TestCollectiveX(t *testing.T) {
	data := testfile.Read(t, "testdata/collectivex.json")
	results, used, warnings, err := Read(strings.NewReader(string(data)), "auto", Given{})
	if err != nil || used != "collectivex" || len(results) != 6 {
		t.Fatalf("%s, %d results, %v", used, len(results), err)
	}
	for i, want := range []string{"dispatch bf16 collectivex-deepep-v2: t8 r8 n1 ", "combine bf16 collectivex-deepep-v2: t8 r8 n1 ", "pair bf16 collectivex-deepep-v2: t8 r8 n1 ", "dispatch bf16 collectivex-deepep-v2: t128 r8 n1 "} {
		if got := summary(results)[i]; !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "pair_period, stage and isolated_sum left out") {
		t.Errorf("%q", warnings)
	}
	text := string(data)
	for _, c := range []struct{ from, to, says string }{
		{`"status":"success"`, `"status":"invalid"`, `the case ended as "invalid"`},
		{`"nodes":1,"phase"`, `"nodes":2,"phase"`, "8 ranks with 8 GPUs a node need 1 nodes, the file says 2"},
		{`"precision":"bf16"`, `"precision":"mxfp8"`, `precision "mxfp8" is not a dtype of epbench`},
		{`"routing":"uniform"`, `"routing":"hot"`, `routing "hot" is unknown`},
		{`"assignments":512`, `"assignments":510`, "64 tokens with top-8 are 512 assignments, logical_copies says 510"},
		{`"global_tokens":64`, `"global_tokens":65`, "8 tokens on 8 ranks are not global_tokens 65"},
	} {
		if !strings.Contains(text, c.from) {
			t.Fatalf("the fixture has no %s", c.from)
		}
		if _, _, _, err := Read(strings.NewReader(strings.Replace(text, c.from, c.to, 1)), "auto", Given{}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.to, err, c.says)
		}
	}
	low, _, _, err := Read(strings.NewReader(strings.Replace(text, `"mode":"normal"`, `"mode":"low-latency"`, 1)), "auto", Given{})
	if err != nil || low[0].Config.Kernel != "collectivex-deepep-v2-ll" {
		t.Errorf("low latency: %v, %v", low, err)
	}
	wrong := strings.Replace(text, `"max_relative_error":0.0039,"passed":true`, `"max_relative_error":1,"passed":false`, 1)
	results, _, warnings, err = Read(strings.NewReader(wrong), "auto", Given{})
	if err != nil || len(results) != 3 || !strings.Contains(strings.Join(warnings, "; "), "8 tokens left out: its answers were wrong") {
		t.Errorf("%d results, %q, %v", len(results), warnings, err)
	}
}

// TestCollectiveXDataSet reads two points of a published data set.
func TestCollectiveXDataSet(t *testing.T) {
	data := testfile.Read(t, "../../testdata/cases/20-collectivex-data-set/series.json")
	if _, _, _, err := Read(strings.NewReader(string(data)), "auto", Given{}); err == nil || !strings.Contains(err.Error(), "give --hidden, --experts, --topk") {
		t.Errorf("%v", err)
	}
	g := Given{Hidden: 7168, Experts: 256, TopK: 8}
	results, _, _, err := Read(strings.NewReader(string(data)), "auto", g)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"dispatch fp8 collectivex-deepep-v2: t1 r16 n2 134.46 us, uniform", "combine fp8 collectivex-deepep-v2: t1 r16 n2 70.75 us, uniform", "pair fp8 collectivex-deepep-v2: t1 r16 n2 194.21 us, uniform",
		"dispatch fp8 collectivex-deepep-v2: t128 r16 n2 149.41 us, uniform", "combine fp8 collectivex-deepep-v2: t128 r16 n2 132.54 us, uniform", "pair fp8 collectivex-deepep-v2: t128 r16 n2 267.55 us, uniform",
	}
	if got := summary(results); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	for from, to := range map[string]string{`"p50":134.46399569511414`: `"p50":120.46399569511414`, `"payload_bytes":1175552`: `"payload_bytes":1175550`, `"payload_bytes":229730144`: `"payload_bytes":229730145`} {
		if _, _, _, err := Read(strings.NewReader(strings.Replace(string(data), from, to, 1)), "auto", g); err == nil {
			t.Errorf("%s was not noticed", to)
		}
	}
}
