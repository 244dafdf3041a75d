package peers

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/testfile"
)

var (
	v3 = Given{Ranks: 8, Hidden: 7168, Experts: 256, TopK: 8, Tokens: 128}
)

func read(t *testing.T, name, format string, g Given) ([]record.Result, string, []string) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	results, used, warnings, err := Read(f, format, g)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return results, used, warnings
}

func line(r record.Result) string {
	p := r.Problem
	return fmt.Sprintf("%s %s %d tokens %d ranks: %s %.2f us (%s)", p.Op, p.Dispatch, p.Tokens, p.Ranks, r.Config.Key(), r.Seconds[0][0]*1e6, r.Clock)
}

func TestReadEveryFormat(t *testing.T) {
	for _, c := range []struct {
		file, format string
		given        Given
		want         []string
		warning      string
	}{
		{"deepep-normal.txt", "deepep", Given{Ranks: 8, Experts: 256}, []string{
			"dispatch fp8 4096 tokens 8 ranks: deepep-normal:chunk=4,sms=24 523.45 us (event)",
			"dispatch fp8 4096 tokens 8 ranks: deepep-normal:chunk=6,sms=24 499.58 us (event)",
			"dispatch fp8 4096 tokens 8 ranks: deepep-normal:chunk=default,sms=24 500.93 us (event)",
			"dispatch bf16 4096 tokens 8 ranks: deepep-normal:chunk=4,sms=24 937.10 us (event)",
			"combine bf16 4096 tokens 8 ranks: deepep-normal:chunk=4,sms=24 977.92 us (event)",
		}, ""},
		{"deepep-ll-crowded.txt", "deepep", Given{}, []string{
			"dispatch fp8 128 tokens 2 ranks: deepep-ll: 35.44 us (span)",
			"combine fp8 128 tokens 2 ranks: deepep-ll: 67.92 us (span)",
			"dispatch fp8 128 tokens 2 ranks: deepep-ll-hook: 26.40 us (span)",
			"combine fp8 128 tokens 2 ranks: deepep-ll-hook: 52.00 us (span)",
		}, ""},
		{"mori-cast.json", "mori", Given{Experts: 256, TopK: 8}, []string{
			"combine bf16 4096 tokens 16 ranks: mori-internodev1-mi355x:sms=64,warps=8 1624.56 us (event)",
		}, "combines of dtype \"bf16\" with quant_type \"fp8_direct_cast\" left out"},
		{"mori-ll16.json", "mori", Given{Experts: 256, TopK: 8}, []string{
			"dispatch fp8 64 tokens 16 ranks: mori-asyncll-mi308x:sms=32,warps=16 250.10 us (event)",
			"dispatch fp8 128 tokens 16 ranks: mori-asyncll-mi308x:sms=32,warps=16 293.60 us (event)",
		}, ""},
		{"nccl-blank.txt", "nccl", Given{Hidden: 7168, Experts: 256, TopK: 8}, []string{
			"dispatch bf16 1 tokens 2 ranks: nccl-alltoall: 36.01 us (event)", "combine bf16 1 tokens 2 ranks: nccl-alltoall: 36.01 us (event)",
			"dispatch bf16 2 tokens 2 ranks: nccl-alltoall: 37.01 us (event)", "combine bf16 2 tokens 2 ranks: nccl-alltoall: 37.01 us (event)",
		}, "rows of all_gather_perf left out"},
		{"mori-ep16.json", "mori", Given{Experts: 256, TopK: 8}, []string{
			"dispatch fp8 4096 tokens 16 ranks: mori-internodev1-mi308x:sms=32,warps=8 2450.76 us (event)",
		}, "neither a latency nor a bandwidth that counts all bytes"},
		{"mori-ep4.json", "mori", Given{Experts: 256, TopK: 8}, []string{
			"dispatch fp8 64 tokens 4 ranks: mori-intranode-mi300x:sms=72,warps=8 33.16 us (event)",
			"combine bf16 64 tokens 4 ranks: mori-intranode-mi300x:sms=64,warps=16,zero_copy=yes 45.12 us (event)",
		}, ""},
		{"nccl.txt", "nccl", Given{Hidden: 7168, Experts: 256, TopK: 8}, []string{
			"dispatch bf16 1 tokens 8 ranks: nccl-alltoall: 35.57 us (event)", "combine bf16 1 tokens 8 ranks: nccl-alltoall: 35.57 us (event)",
			"dispatch bf16 32 tokens 8 ranks: nccl-alltoall: 53.35 us (event)", "combine bf16 32 tokens 8 ranks: nccl-alltoall: 53.35 us (event)",
			"dispatch bf16 128 tokens 8 ranks: nccl-alltoall: 108.40 us (event)", "combine bf16 128 tokens 8 ranks: nccl-alltoall: 108.40 us (event)",
		}, ""},
		{"nccl.txt", "nccl", Given{Hidden: 7168, Experts: 256, TopK: 16}, []string{
			"dispatch bf16 16 tokens 8 ranks: nccl-alltoall: 53.35 us (event)", "combine bf16 16 tokens 8 ranks: nccl-alltoall: 53.35 us (event)",
			"dispatch bf16 64 tokens 8 ranks: nccl-alltoall: 108.40 us (event)", "combine bf16 64 tokens 8 ranks: nccl-alltoall: 108.40 us (event)",
		}, "1 of 3 sizes left out: they are not a whole number of tokens"},
		{"nccl-prefix.txt", "nccl", Given{Hidden: 7168, Experts: 256, TopK: 8}, []string{
			"dispatch bf16 1 tokens 2 ranks: nccl-alltoall: 35.57 us (event)", "combine bf16 1 tokens 2 ranks: nccl-alltoall: 35.57 us (event)",
			"dispatch bf16 32 tokens 2 ranks: nccl-alltoall: 53.35 us (event)", "combine bf16 32 tokens 2 ranks: nccl-alltoall: 53.35 us (event)",
			"dispatch bf16 128 tokens 2 ranks: nccl-alltoall: 108.40 us (event)", "combine bf16 128 tokens 2 ranks: nccl-alltoall: 108.40 us (event)",
		}, ""},
		{"nccl.json", "nccl-json", Given{Hidden: 7168, Experts: 256, TopK: 8}, []string{
			"dispatch bf16 1 tokens 8 ranks: nccl-alltoall: 35.57 us (event)", "combine bf16 1 tokens 8 ranks: nccl-alltoall: 35.57 us (event)",
			"dispatch bf16 128 tokens 8 ranks: nccl-alltoall: 108.40 us (event)", "combine bf16 128 tokens 8 ranks: nccl-alltoall: 108.40 us (event)",
		}, "1 of 3 sizes left out: they had wrong elements"},
		{"aiconfigurator-ll.csv", "aiconfigurator", Given{}, []string{
			"dispatch fp8 128 tokens 8 ranks: deepep-ll: 35.10 us (span)", "combine fp8 128 tokens 8 ranks: deepep-ll: 67.70 us (span)",
			"dispatch fp8 1 tokens 8 ranks: deepep-ll: 11.90 us (span)", "combine fp8 1 tokens 8 ranks: deepep-ll: 12.60 us (span)",
		}, ""},
		{"aiconfigurator-normal.json", "aiconfigurator", Given{}, []string{
			"dispatch fp8 4096 tokens 8 ranks: deepep-normal:sms=20 494.00 us (event)", "combine fp8 4096 tokens 8 ranks: deepep-normal:sms=20 998.50 us (event)",
		}, ""},
		{"mori.json", "mori", Given{Experts: 256, TopK: 8}, []string{
			"dispatch fp8 4096 tokens 8 ranks: mori-intranode-mi300x:sms=80,warps=16 522.00 us (event)",
			"dispatch bf16 4096 tokens 8 ranks: mori-intranode-mi300x:sms=80,warps=16 942.13 us (event)",
		}, "fp4"},
		{"own.csv", "csv", Given{Ranks: 8, Hidden: 7168, Experts: 256, TopK: 8, Definition: "nccl-ep-ll", Columns: map[string]string{"bs": "tokens", "gbs": "gbps", "library": "kernel"}}, []string{
			"dispatch bf16 128 tokens 8 ranks: nccl-ep: 65.45 us (wall)",
		}, ""},
	} {
		format := "auto"
		if c.format == "csv" {
			format = "csv"
		}
		results, used, warnings := read(t, c.file, format, c.given)
		if used != c.format {
			t.Errorf("%s was read as %s", c.file, used)
		}
		var got []string
		for _, r := range results {
			got = append(got, line(r))
			if r.Role != record.Peer || len(r.Warnings) != 1 || r.Warnings[0] == "" {
				t.Errorf("%s: role %s, note %q", c.file, r.Role, r.Warnings)
			}
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", c.file, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
		if all := strings.Join(warnings, "; "); c.warning == "" && all != "" || !strings.Contains(all, c.warning) {
			t.Errorf("%s: warnings %q, want %q", c.file, all, c.warning)
		}
	}
}

func TestReadParquet(t *testing.T) {
	type row struct {
		Framework string  `parquet:"framework"`
		Backend   string  `parquet:"comm_backend"`
		Phase     string  `parquet:"phase"`
		DType     string  `parquet:"comm_dtype"`
		Ranks     int64   `parquet:"ep_size"`
		Nodes     int64   `parquet:"node_num"`
		Hidden    int64   `parquet:"hidden_size"`
		TopK      int64   `parquet:"topk"`
		Experts   int64   `parquet:"num_experts"`
		Tokens    int64   `parquet:"num_tokens"`
		SMs       *int64  `parquet:"sms,optional"`
		Latency   float64 `parquet:"latency"`
	}
	sms := int64(24)
	var file bytes.Buffer
	if err := parquet.Write(&file, []row{
		{"SGLang", "deepep_ht", "dispatch", "default", 8, 1, 7168, 8, 256, 4096, &sms, 850},
		{"TRTLLM", "NVLinkTwoSided", "prepare", "default", 8, 1, 7168, 8, 256, 128, nil, 5},
		{"SGLang", "deepep_ll", "combine", "default", 8, 1, 7168, 8, 256, 128, nil, 67.5},
		{"TRTLLM", "trtllm_deepep_ht", "dispatch", "bfloat16", 8, 1, 7168, 8, 256, 128, nil, 60},
		{"TRTLLM", "trtllm_deepep_ht", "dispatch", "nvfp4", 8, 1, 7168, 8, 256, 128, nil, 30},
		{"TRTLLM", "trtllm_deepep_ll", "combine", "fp8", 8, 1, 7168, 8, 256, 128, nil, 50},
		{"TRTLLM", "trtllm_deepep_ll", "combine", "fp4", 8, 1, 7168, 8, 256, 128, nil, 20},
		{"TRTLLM", "nvlink_one_sided", "dispatch", "default", 8, 1, 7168, 8, 256, 128, nil, 20},
	}); err != nil {
		t.Fatal(err)
	}
	results, used, warnings, err := Read(&file, "auto", Given{})
	if err != nil || used != "aiconfigurator" {
		t.Fatalf("read as %s, %v", used, err)
	}
	var got []string
	for _, r := range results {
		got = append(got, line(r))
	}
	want := []string{
		"dispatch fp8 4096 tokens 8 ranks: deepep-ht:sms=24 850.00 us (event)", "combine fp8 128 tokens 8 ranks: deepep-ll: 67.50 us (event)",
		"dispatch bf16 128 tokens 8 ranks: trtllm-deepep-ht: 60.00 us (event)", "dispatch nvfp4 128 tokens 8 ranks: trtllm-deepep-ht: 30.00 us (event)",
		"combine fp8 128 tokens 8 ranks: trtllm-deepep-ll: 50.00 us (event)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	all := strings.Join(warnings, "; ")
	if !strings.Contains(all, `comm_dtype "fp4" left out`) || !strings.Contains(all, `"nvlink_one_sided" with comm_dtype "default" left out`) || !strings.Contains(all, `phase "prepare" left out`) || len(warnings) != 3 {
		t.Errorf("warnings %q", warnings)
	}
	if _, _, _, err := Read(strings.NewReader("PAR1 and no more"), "auto", Given{}); err == nil {
		t.Error("a broken file was read")
	}
}

func TestOtherCollectives(t *testing.T) {
	data := testfile.Read(t, "testdata/nccl-reduce.txt")
	for _, text := range []string{string(data), "# ./build/all_gather_perf -b 8\n" + strings.Replace(string(data), " sum", "none", 1)} {
		if _, _, _, err := Read(strings.NewReader(text), "auto", v3); err == nil || !strings.Contains(err.Error(), "only alltoall_perf") {
			t.Errorf("%v", err)
		}
	}
}

// TestDefinitions: published bandwidths give the published times within 1 %.
func TestDefinitions(t *testing.T) {
	decode := ep.Problem{Op: ep.Dispatch, Ranks: 8, Hidden: 7168, Experts: 256, TopK: 8, Tokens: 128, Dispatch: ep.FP8, Combine: ep.BF16}
	prefill := decode
	prefill.Tokens = 4096
	six := prefill
	six.TopK = 6
	with := func(p ep.Problem, op ep.Op, f ep.DType) ep.Problem { p.Op, p.Dispatch = op, f; return p }
	for _, c := range []struct {
		name string
		p    ep.Problem
		gbps float64
		us   float64
	}{
		{"deepep-normal", prefill, 320.68, 499.58},
		{"deepep-normal", with(prefill, ep.Combine, ep.FP8), 318, 979},
		{"deepep-ll", decode, 216, 35.1},
		{"deepep-ll", with(decode, ep.Combine, ep.FP8), 217, 67.7},
		{"nccl-ep-ll", with(decode, ep.Dispatch, ep.BF16), 224.3, 65.4},
		{"mori", with(six, ep.Dispatch, ep.FP8), 284.35, 457.8}, // gfx942_mi300x_IntraNode_ep8_dispatch.json
		{"mori", with(six, ep.Dispatch, ep.BF16), 311.41, 838.69},
	} {
		d, err := FindDefinition(c.name)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Seconds(c.p, c.gbps) * 1e6; math.Abs(got/c.us-1) > 0.01 {
			t.Errorf("%s: %.4g GB/s are %.1f us, the published time is %.1f us", c.name, c.gbps, got, c.us)
		}
	}
	if _, err := FindDefinition("deepep"); err == nil || !strings.Contains(err.Error(), "deepep-ll") {
		t.Errorf("got %v", err)
	}
}

func TestDistinctRanks(t *testing.T) {
	for _, c := range []struct {
		ranks, experts, topK int
		want                 float64
	}{{8, 256, 8, 5.295}, {8, 8, 8, 8}, {8, 8, 2, 2}, {1, 4, 2, 1}, {4, 32, 1, 1}, {2, 2, 2, 2}} {
		if got := DistinctRanks(c.ranks, c.experts, c.topK); math.Abs(got-c.want) > 5e-4 {
			t.Errorf("%+v: %.4f", c, got)
		}
	}
}

func TestBaselines(t *testing.T) {
	path := filepath.Join("..", "..", "..", "shared", "baselines", "h200x8.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Skip("the folder ../shared is not there")
	}
	results, used, _, err := Read(strings.NewReader(string(data)), "auto", Given{})
	if err != nil || used != "baseline" {
		t.Fatalf("%s: %v", used, err)
	}
	var all []string
	for _, r := range results {
		all = append(all, line(r))
	}
	for _, want := range []string{
		"dispatch fp8 128 tokens 8 ranks: deepep-v1-low-latency: 37.60 us (span)",
		"combine bf16 4096 tokens 8 ranks: deepep-v1-normal:sms=24 973.70 us (event)",
		"dispatch bf16 128 tokens 8 ranks: nccl-2-28-9-all-to-all: 85.60 us (event)",
		"combine bf16 128 tokens 8 ranks: nccl-2-28-9-all-to-all: 85.60 us (event)",
	} {
		if !strings.Contains(strings.Join(all, "\n"), want) {
			t.Errorf("missing %q in\n%s", want, strings.Join(all, "\n"))
		}
	}
}

func TestHostileInput(t *testing.T) {
	for _, c := range []struct{ name, data, format, want string }{
		{"empty", "", "auto", "none of the known formats"},
		{"nonsense", "hello\n", "auto", "none of the known formats"},
		{"unknown format", "x", "nvshmem", "unknown format"},
		{"no shape", "[tuning] SMs 24, NVL chunk 4: 300.00 GB/s (NVL), 500.00 us\n[tuning] Best combine: SMs 24, NVL chunk 4: 300.00 GB/s (NVL), t: 500.00 us\n", "auto", "give --ranks"},
		{"a figure of 0", "[rank 0] Dispatch bandwidth: 0.00 GB/s, avg_t=0.00 us | Combine bandwidth: 1.00 GB/s, avg_t=1.00 us\n", "auto", "is not a positive number"},
		{"another collective", "# Collective test starting: all_reduce_perf\n#       size         count      type   redop    root     time   algbw   busbw #wrong\n", "auto", "only alltoall_perf"},
		{"truncated JSON", `{"nccl_version":1,"results":[{"size":1`, "auto", "unexpected end"},
		{"parquet", "PAR1\x00\x00", "auto", "parquet"},
		{"huge", strings.Repeat("x", MaxInput+1), "auto", "larger than"},
		{"bad count", "node_num,hidden_size,num_token,num_topk,num_experts,combine_avg_t_us,dispatch_avg_t_us\n1,x,1,1,1,1,1\n", "auto", "hidden_size"},
		{"ragged CSV", "tokens,us\n1,2,3\n", "auto", "wrong number of fields"},
		{"csv without definition", "tokens,gbps\n1,2\n", "auto", "give --ranks"},
	} {
		_, _, _, err := Read(strings.NewReader(c.data), c.format, Given{})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q in one line", c.name, err, c.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	names, _ := filepath.Glob("testdata/*.*")
	for _, n := range names {
		data, err := os.ReadFile(n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		results, _, _, err := Read(strings.NewReader(string(data)), "auto", v3)
		if err == nil && len(results) == 0 {
			t.Error("neither figures nor an error")
		}
		for _, r := range results {
			if s := r.Seconds[0][0]; !(s > 0) || r.Problem.Validate() != nil {
				t.Errorf("%v seconds for %s", s, r.Problem.Key())
			}
		}
	})
}
