package cuda

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// sameBinaries gives these sources the name of the build that tables were
// measured with, since both compile to the same binaries. A change of code
// changes the hash: the entry then no longer applies, and a test asks to
// delete it.
//
// An entry needs a proof: `make cuda-variants` prints a digest of every binary,
// to be compared between the old sources and the new. For this entry NVRTC
// 13.0 compiled 660 variants of both for sm_90a, every value of every
// compile-bound parameter, all dtypes, and eight shapes: all binaries were
// equal, byte by byte. What had changed: names of launch parameters, macros and
// functions, the files they are in, comments, the word for a class, and call
// numbers under EP_OWN_ROUNDS, which packs alone are compiled with. What changed
// under that macro since then leaves the preprocessed text without it the same.
var sameBinaries = map[string]string{
	"d8403c4bb91592c11a6878bd4b29697d7ffb64ff7431c67b713e4a62f839f285": "d294d935a5eed5afb3e2ed0ca8a3790381cb43ebab11ba520e232508de20f421",
}

// ABI identifies the kernels: tables and runs are bound to it, and a table of
// another ABI does not apply. It is sourceHash, or the name of an older build
// of the same binaries.
func ABI() string {
	h := sourceHash()
	if name, ok := sameBinaries[h]; ok {
		return name
	}
	return h
}

// sourceHash covers what decides the compiled code: the device sources of all
// families, without comments and white space, and of every parameter the name,
// binding, class, default and values. Device sources that no family includes
// are left out, and so is what a parameter's documentation says.
var sourceHash = sync.OnceValue(func() string {
	h := sha256.New()
	for _, f := range families() {
		code, err := codeOf(f.source)
		if err != nil {
			panic(err) // the sources are embedded
		}
		fmt.Fprintf(h, "%s %s\n%s", f.kernel.Name, f.kernel.Op, code)
		for _, q := range f.kernel.Params {
			fmt.Fprintf(h, "%s %s %s %q %q\n", q.Name, q.Binding, q.Class, q.Default, q.Values)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
})

// cToken is one piece of C: a comment, a literal, the head of a definition, a
// word, an operator, or white space. The head of a definition takes in the
// bracket that follows at once, since `#define F (x)` is not `#define F(x)`.
var cToken = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'` +
	`|#[ \t]*define[ \t]+\w+\(?|\w+|\\\r?\n|\n|\s` +
	`|<<=|>>=|\.\.\.|->|::|##|\+\+|--|<<|>>|&&|\|\||[-+*/%&|^<>=!]=|.`)

// codeOnly spells a C source so that comments, indentation and line breaks
// make no difference: one space between two pieces, a directive on a line of
// its own.
func codeOnly(text string) string {
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
