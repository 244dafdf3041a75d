package export

import (
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/tune/testfile"
)

const machinesC = `#include <stdio.h>
#include "tuned.h"
int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    printf("%d%d ", tuned_refusal(argv[i], TUNED_ABI) == NULL, tuned_refusal_other_machines(argv[i], TUNED_ABI) == NULL);
  return tuned_refusal_other_machines(TUNED_MACHINE_KEY, "none") == NULL;
}
`

const machinesPython = `import sys, tuned
print(*("%d%d" % (tuned.refusal(k, tuned.ABI) is None, tuned.refusal(k, tuned.ABI, other_machines=True) is None) for k in sys.argv[1:]), end=" ")
`

func TestExportsTakeTheSameMachines(t *testing.T) {
	gpu := ep.Machine{Backend: "cuda", Name: "GPU", PCIID: "10de:2335", Arch: "sm_90", SMs: 132, Memory: 139 << 30, GPUs: 2, Link: "nv18"}
	takeTheSame(t, gpu, "11 01 01 00 ")
	noGPU := gpu
	noGPU.PCIID = ""
	takeTheSame(t, noGPU, "11 00 00 00 ")
}

// takeTheSame asks whether machines that differ slightly from `own` may use its table. An answer has two digits, 1 for
// yes. The first is for callers that refuse rows of other machines, the second for callers that accept them.
func takeTheSame(t *testing.T, own ep.Machine, begin string) {
	t.Helper()
	tab := drawTable(t, rand.New(rand.NewPCG(1, 5)))
	tab.Header.Machine = own
	if err := tab.Seal(); err != nil {
		t.Fatal(err)
	}
	var keys []string
	want := ""
	for _, change := range []func(*ep.Machine){
		func(*ep.Machine) {},
		func(m *ep.Machine) { m.PCIID, m.Memory = "10de:2330", 79<<30 },
		func(m *ep.Machine) { m.SMs = 144 },
		func(m *ep.Machine) { m.SMs = 114 },
		func(m *ep.Machine) { m.Arch = "sm_100" },
		func(m *ep.Machine) { m.Link = "nv12" },
		func(m *ep.Machine) { m.Backend = "cpu" },
		func(m *ep.Machine) { m.PCIID = "" },
	} {
		m := own
		change(&m)
		keys = append(keys, m.Key())
		p := tab.Rows[0].Key.Problem(1)
		for _, h := range []table.Host{{Machine: m}, {Machine: m, OtherMachines: true}} {
			want += map[bool]string{true: "1", false: "0"}[tab.Refusal(h, p) == nil]
		}
		want += " "
	}
	if !strings.HasPrefix(want, begin) {
		t.Fatalf("Go answers %s", want)
	}
	askExports(t, tab, machinesC, machinesPython, keys, want)
}

const buildsC = `#include <stdio.h>
#include "tuned.h"
int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) printf("%d%d ", tuned_refusal(TUNED_MACHINE_KEY, argv[i]) == NULL, tuned_certified(argv[i]));
  return 0;
}
`

const buildsPython = `import sys, tuned
print(*("%d%d" % (tuned.refusal(tuned.MACHINE_KEY, k) is None, tuned.certified(k)) for k in sys.argv[1:]), end=" ")
`

func TestExportsTakeTheSameBuilds(t *testing.T) {
	for _, own := range []ep.ABI{"combine=1f,dispatch=2.1f", "worker 1.2"} {
		tab := drawTable(t, rand.New(rand.NewPCG(1, 5)))
		tab.Header.ABI = own
		tab.Rows = tab.Rows[:1]
		r := &tab.Rows[0]
		r.Default, r.Config, r.ABI = false, ep.Config{Kernel: "k", Values: map[string]ep.Value{"n": "1"}}, own
		if err := tab.Seal(); err != nil {
			t.Fatal(err)
		}
		var builds []string
		want := ""
		bit := map[bool]string{true: "1", false: "0"}
		for _, here := range []ep.ABI{
			"combine=1f,dispatch=2.1f", "combine=9f,dispatch=2.9f,other=1", "combine=1.9f,dispatch=2.1f", "combine=1f,dispatch=1f",
			"combine=1f,dispatch=20.1f", "combine=2.1f,dispatch=2.1f", "dispatch=2.1f", "dispatch_combine=1f,dispatch=2.1f", "worker 1.2", "worker 1.3", "none",
		} {
			builds = append(builds, string(here))
			want += bit[here.Accepts(own)] + bit[here.Serves(own)] + " "
			if err := tab.Refusal(table.Host{Machine: tab.Header.Machine, ABI: here}, r.Key.Problem(1)); (err == nil) != here.Accepts(own) {
				t.Errorf("a table of %q on %q: %v", own, here, err)
			}
		}
		askExports(t, tab, buildsC, buildsPython, builds, want)
	}
}

// askExports runs a C and a Python program over the exports.
func askExports(t *testing.T, tab *table.Table, inC, inPython string, args []string, want string) {
	t.Helper()
	dir := exported(t, tab)
	for name, text := range map[string]string{"main.c": inC, "main.py": inPython} {
		testfile.Write(t, filepath.Join(dir, name), text)
	}
	t.Run("c", func(t *testing.T) {
		bin := filepath.Join(dir, "main")
		if out, err := exec.Command(tool(t, "gcc"), "-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-pedantic", "-o", bin, filepath.Join(dir, "main.c")).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if out, err := exec.Command(bin, args...).Output(); err != nil || string(out) != want {
			t.Errorf("C says %s, Go %s: %v", out, want, err)
		}
	})
	t.Run("python", func(t *testing.T) {
		cmd := exec.Command(tool(t, "python3"), append([]string{"main.py"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("Python says %s, Go %s: %v", out, want, err)
		}
	})
}
