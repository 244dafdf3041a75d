package peers

import (
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/testfile"
)

// TestCases reads public inputs that an earlier version read wrongly.
func TestCases(t *testing.T) {
	model := Given{Hidden: 7168, TopK: 8, Experts: 256}
	with := func(change func(*Given)) Given {
		g := model
		change(&g)
		return g
	}
	for _, c := range []struct {
		file string
		g    Given
		want []string
		says string
	}{
		// 208.70 GB/s x 36.35 us = 128 tokens x 8 experts x 7,408 bytes
		{"02-deepep-normal-then-ll/mixed.txt", with(func(g *Given) { g.Tokens = 128 }), []string{"dispatch fp8 deepep-ll: t128 r8 n1 36.70 us, uniform"}, ""},
		{"02-deepep-normal-then-ll/mixed.txt", model, nil, "low-latency lines: the file does not give all values of its problem; give --tokens"},
		{"04-deepep-best-lines-only/best2.txt", with(func(g *Given) { g.Ranks, g.Tokens = 8, 4096 }), []string{"dispatch fp8 deepep-normal:chunk=8,sms=24 t4096 r8 n1 490.10 us, uniform", "combine bf16 deepep-normal:chunk=3,sms=24 t4096 r8 n1 936.71 us, uniform"}, ""},
		{"05-two-hosts-as-one/two.txt", model, []string{"dispatch bf16 nccl-alltoall: t32 r16 n2 553.30 us, uniform"}, ""},
		{"06-nccl-json-devices/g8.json", model, []string{"dispatch bf16 nccl-alltoall: t1 r8 n1 36.01 us, uniform"}, ""},
		{"07-nccl-alltoallv/alltoallv.txt", model, nil, "this is alltoallv_perf; only alltoall_perf (an all-to-all with equal splits) can be imported"},
		{"09-nccl-mpirun-prefix/mpi.txt", model, []string{"dispatch bf16 nccl-alltoall: t32 r2 n2 553.30 us, uniform"}, ""},
	} {
		data := testfile.Read(t, "../../testdata/cases/"+c.file)
		results, _, warnings, err := Read(strings.NewReader(string(data)), "auto", c.g)
		said := strings.Join(warnings, "\n")
		if err != nil {
			said += err.Error()
		}
		if len(c.want) > 0 && err != nil || !strings.Contains(said, c.says) {
			t.Errorf("%s: said %q, want %q", c.file, said, c.says)
		}
		got := summary(results)
		for _, w := range c.want {
			if !slices.Contains(got, w) {
				t.Errorf("%s: no %q in\n%s", c.file, w, strings.Join(got, "\n"))
			}
		}
	}
}

func TestHostsAreAsked(t *testing.T) {
	data := testfile.Read(t, "../../testdata/cases/05-two-hosts-as-one/ll2node.txt")
	g := Given{Hidden: 7168, TopK: 8, Experts: 256, Tokens: 128}
	if _, _, _, err := Read(strings.NewReader(string(data)), "auto", g); err == nil || !strings.Contains(err.Error(), "--nodes") {
		t.Errorf("16 ranks without --nodes: %v", err)
	}
	g.Nodes = 2
	results, _, _, err := Read(strings.NewReader(string(data)), "auto", g)
	if err != nil || len(results) == 0 || results[0].Problem.Nodes != 2 || results[0].Problem.Ranks != 16 {
		t.Errorf("%d results, %v; want 16 ranks on 2 hosts", len(results), err)
	}
}
