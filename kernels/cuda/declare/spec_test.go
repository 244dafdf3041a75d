package declare

import (
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
)

// TestPackedKernelsCountTheirCalls: every entry counts its calls with EP_NUMBER_DONE, or by a function that does. In a
// pack nothing else counts calls, and a second call would wait forever.
func TestPackedKernelsCountTheirCalls(t *testing.T) {
	texts := map[string]string{}
	for _, f := range everywhere() {
		if f.Kernel.Op == ep.Activation { // packs have no activation kernels
			continue
		}
		files, err := sources.Closure(f.source)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(texts, files)
	}
	counts := func(source, function string) {
		_, body, found := strings.Cut(sources.CodeOnly(texts[source]), "void "+function+" (")
		if !found || !strings.Contains(body, "EP_NUMBER_DONE (") && !strings.Contains(body, " lh_run (") {
			t.Errorf("%s in %s does not count the call", function, source)
		}
	}
	counts("common/check.cuh", "ep_run")
	counts("hosts/ll_layout.cuh", "lh_run")
	for source, text := range texts {
		code := sources.CodeOnly(text)
		for _, made := range entries.FindAllStringSubmatch(code, -1) {
			counts(source, made[1])
		}
		for _, entry := range strings.Split(code, "EP_ENTRY (")[1:] {
			if !counting.MatchString(entry) {
				t.Errorf("an entry of %s does not count its calls: %.60s", source, entry)
			}
		}
	}
}

// counting matches the code that counts a call. ep_copy_shared_outputs reads no call number. In an entry of EP_ENTRIES or
// LH_ENTRIES, the function that the kernel names counts the call.
var counting = regexp.MustCompile(`EP_NUMBER_DONE \(|\b(ep_|lh_)run \(|ep_copy_shared_outputs|call < (first|sends , receives) >`)

// entries matches a use of EP_ENTRIES or LH_ENTRIES. It does not match the definition, where no space follows the name.
var entries = regexp.MustCompile(`\b(?:EP|LH)_ENTRIES \( \w+ , (\w+) \)`)

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
