package declare

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/epbench/epbench/tune/ep"
)

// sameBinaries gives a kernel's sources the word of an older build that compiles to the
// same binaries: from the hash of today's sources to that word. A change of code
// changes the hash: the entry then no longer applies, and a test asks to delete it.
//
// An entry needs a proof: `make cuda-variants` prints a digest of every binary, to be
// compared between the old sources and the new.
var sameBinaries = map[string]string{
	// ll/rows.cuh taken out of ll/dispatch.cuh and ll/dispatch_ids.cuh, for dispatch_masked_ids
	"7443f5ba1c2cdc8d": "7370039ed47227d3", // dispatch_ll
	"6e7f0e299ffc4cf2": "f72cdb5feb7215e9", // dispatch_ll_ids
	"f3e02630c2825968": "bbb4a3bc08a5a350", // dispatch_ll_split
}

// ABI names the build of every kernel: tables, runs and packs are bound to the words of
// the kernels that they launch.
var ABI = sync.OnceValue(func() ep.ABI { return abiOf(Declarations()) })

func abiOf(families []Declaration) ep.ABI {
	words := map[string]string{}
	for _, f := range families {
		words[f.Kernel.Name] = cmp.Or(sameBinaries[f.sourceHash()], f.sourceHash())
	}
	return ep.NewABI(words)
}

// sourceHash covers what one kernel compiles from: its device source with all that it
// includes, without comments and white space, and the name and binding of every
// parameter. 16 hex digits. The values of a parameter are left out: one more value
// changes no config that was measured, and a config with a value that is gone is illegal.
func (f Declaration) sourceHash() string {
	code, err := codeOf(f.source)
	if err != nil {
		panic(err) // the sources are embedded
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s %s\n%s", f.Kernel.Name, f.Kernel.Op, code)
	for _, q := range f.Kernel.Params {
		fmt.Fprintf(h, "%s %s\n", q.Name, q.Binding)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// cToken is one piece of C: a comment, a literal, the head of a definition, a
// word, an operator, or white space. The head of a definition takes in the
// bracket that follows at once, since `#define F (x)` is not `#define F(x)`.
var cToken = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'` +
	`|#[ \t]*define[ \t]+\w+\(?|\w+|\\\r?\n|\n|\s` +
	`|<<=|>>=|\.\.\.|->|::|##|\+\+|--|<<|>>|&&|\|\||[-+*/%&|^<>=!]=|.`)

// codeOnly spells a C source so that comments, indentation and line breaks
// make no difference: one space between two pieces, a directive on a line of
// its own.
func CodeOnly(text string) string {
	var out strings.Builder
	directive := false
	for _, t := range cToken.FindAllString(text, -1) {
		switch {
		case t == "\n" && directive:
			out.WriteString("\n")
			directive = false
		case strings.TrimSpace(t) == "" || t[0] == '\\' || strings.HasPrefix(t, "//") || strings.HasPrefix(t, "/*"):
		case strings.HasPrefix(t, "#") && !directive:
			out.WriteString("\n" + strings.Join(strings.Fields(t[1:]), " ") + " ")
			directive = true
		default:
			out.WriteString(t + " ")
		}
	}
	return out.String()
}
