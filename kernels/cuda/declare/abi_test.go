package declare

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestABINamesEveryKernel: the ABI has a word for each kernel.
func TestABINamesEveryKernel(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Declarations() {
		word := ABI().Of(f.Kernel.Name)
		if hash := word[strings.IndexByte(word, '.')+1:]; len(hash) != 16 || seen[word] {
			t.Errorf("%s: the ABI word %q has no hash of 16 digits, or another kernel has the same word", f.Kernel.Name, word)
		}
		seen[word] = true
	}
	const first = ep.ABI("d294d935a5eed5afb3e2ed0ca8a3790381cb43ebab11ba520e232508de20f421")
	for _, name := range []string{"combine", "combine_final", "combine_ll", "dispatch", "dispatch_final", "dispatch_ll"} {
		if len(first.Of(name)) != 16 {
			t.Errorf("%s: the first build has no word for it", name)
		}
	}
}
