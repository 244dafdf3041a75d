package declare

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
)

// TestPackedKernelsCountTheirCalls: every entry counts its calls with EP_NUMBER_DONE or ep_run. In a pack nothing else
// counts calls, and a second call would wait forever.
func TestPackedKernelsCountTheirCalls(t *testing.T) {
	check, err := sources.Read("common/check.cuh")
	if _, run, found := strings.Cut(check, " ep_run("); err != nil || !found || !strings.Contains(run, "EP_NUMBER_DONE(") {
		t.Errorf("ep_run in common/check.cuh does not count the call, %v", err)
	}
	of := map[string]string{"common/halves.cuh": "several"}
	for _, f := range everywhere() {
		if f.Kernel.Op != ep.Activation { // packs have no activation kernels
			of[f.source] = f.Kernel.Name
		}
	}
	for source, kernel := range of {
		text, err := sources.Read(source)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range strings.Split(sources.CodeOnly(text), "EP_ENTRY (")[1:] {
			counts := strings.Contains(entry, "EP_NUMBER_DONE (") || strings.Contains(entry, "ep_run (")
			if !counts && !strings.Contains(entry, "ep_copy_shared_outputs") { // ep_copy_shared_outputs reads no call number
				t.Errorf("%s: an entry of %s does not count its calls: %.60s", kernel, source, entry)
			}
		}
	}
}

// TestHostKernelsHaveAPlaceInPacks: packs can hold every launch of a kernel that crosses hosts.
func TestHostKernelsHaveAPlaceInPacks(t *testing.T) {
	m := ep.Machine{Arch: "sm_90", SMs: 132, GPUs: 16}
	p := ep.Problem{Ranks: 16, Nodes: 2, Hidden: 7168, Experts: 256, TopK: 8, MaxTokens: 128, Dispatch: ep.FP8, Combine: ep.BF16}
	for _, k := range KernelsOver(2, m) {
		p.Op = k.Op
		s, err := DescribeCall(m, p, k.DefaultConfig(m, p))
		if err != nil || len(s.Launches) == 0 || !s.Unit.CrossesHosts() {
			t.Errorf("%s: %+v, %v", k.Name, s, err)
		}
		one := p
		one.Nodes = 1
		if _, err := DescribeCall(m, one, k.DefaultConfig(m, p)); err == nil {
			t.Errorf("%s is packed for one host, but kernels over hosts must be refused there", k.Name)
		}
	}
}
