package cuda

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestPackedKernelsCountTheirCalls: in a pack nobody but the kernel counts calls, so that
// every entry must end with EP_NUMBER_DONE. One that forgets it runs once and then waits
// for the call before.
func TestPackedKernelsCountTheirCalls(t *testing.T) {
	for _, f := range everyFamily() {
		if f.kernel.Op == ep.Activation {
			continue // no part of a pack
		}
		text, err := readSource(f.source)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range strings.Split(codeOnly(text), "EP_ENTRY (")[1:] {
			if !strings.Contains(entry, "EP_NUMBER_DONE (") && !strings.Contains(entry, "ep_copy_shared_outputs") { // that one has no number
				t.Errorf("%s: an entry of %s does not count its calls: %.60s", f.kernel.Name, f.source, entry)
			}
		}
	}
}
