package peers

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/testfile"
)

func TestRCCL(t *testing.T) {
	g := Given{Hidden: 7168, Experts: 256, TopK: 8}
	want := []string{
		"dispatch bf16 nccl-alltoall: t1 r8 n1 32.05 us, uniform", "combine bf16 nccl-alltoall: t1 r8 n1 32.05 us, uniform",
		"dispatch bf16 nccl-alltoall: t32 r8 n1 48.98 us, uniform", "combine bf16 nccl-alltoall: t32 r8 n1 48.98 us, uniform",
		"dispatch bf16 nccl-alltoall: t128 r8 n1 101.41 us, uniform", "combine bf16 nccl-alltoall: t128 r8 n1 101.41 us, uniform",
	}
	for _, name := range []string{"rccl.csv", "rccl-mpi.csv", "rccl.json", "rccl-mpi.json"} {
		data := testfile.Read(t, "testdata/"+name)
		results, used, warnings, err := Read(strings.NewReader(string(data)), "auto", g)
		if err != nil || used != "rccl" || len(warnings) > 0 {
			t.Errorf("%s: %s, %q, %v", name, used, warnings, err)
			continue
		}
		if got := summary(results); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s:\n%s", name, strings.Join(got, "\n"))
		}
	}
	mpi := testfile.Read(t, "testdata/rccl-mpi.csv")
	for _, c := range []struct{ from, to, says string }{
		{`"AlltoAll",1,8,8,1,114688`, `"AlltoAll",2,16,8,1,114688`, "2 communicators of 8 ranks ran at the same time"},
		{`"AlltoAll",1,8,8,1,114688,"bfloat16"`, `"AlltoAll",1,8,8,1,114688,"fp6"`, `type "fp6" is unknown`},
		{`"AlltoAll",1,8,8,1,114688`, `"AlltoAll",1,4,4,1,114688`, "is not (ranks-1)/ranks for the 4 ranks"},
		{`"AlltoAll",1,8,8,1,114688`, `"AlltoAll",1,8,114688`, "row 1 has 12 fields"},
		{"AlltoAll", "AlltoAllv", ""},
	} {
		text := strings.Replace(string(mpi), c.from, c.to, 1)
		if c.says == "" {
			text, c.says = strings.ReplaceAll(string(mpi), c.from, c.to), "this is AlltoAllv; only alltoall_perf"
		}
		if _, _, _, err := Read(strings.NewReader(text), "auto", g); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.to, err, c.says)
		}
	}
	sixteen := strings.ReplaceAll(string(mpi), "1,8,8,1", "1,16,16,1")
	if _, _, _, err := Read(strings.NewReader(sixteen), "auto", g); err == nil || !strings.Contains(err.Error(), "(ranks-1)/ranks") {
		t.Errorf("rows that claim 16 ranks but have the bus bandwidth of 8 ranks: %v", err)
	}
}

// rcclCSV returns a random CSV in the format of a build with MPI.
func rcclCSV(r *rand.Rand) string {
	var b strings.Builder
	ranks := []int{2, 4, 8}[r.IntN(3)]
	b.WriteString("numCycle,collective,ranks,rankspernode,gpusperrank,size,type,redop,inplace,time,algbw,busbw,#wrong\n")
	for _, tokens := range []int{1 + r.IntN(64), 128 + r.IntN(4096)} {
		size := tokens * 8 * 7168 * 2
		us := 30 + float64(size)/2e5*(1+r.Float64())
		alg := float64(size) / 1e3 / us
		fmt.Fprintf(&b, "0,%q,1,%d,%d,1,%d,%q,%q,0,%f,%f,%f,%q\n", "AlltoAll", ranks, ranks, size, "bfloat16", "none", us, alg, alg*float64(ranks-1)/float64(ranks), "0")
	}
	return b.String()
}
