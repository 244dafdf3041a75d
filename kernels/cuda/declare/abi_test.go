package declare

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestCodeOnly: two sources that differ only in comments and white space have the same code. Sources that
// differ in anything else do not.
func TestCodeOnly(t *testing.T) {
	base := "#define F(x) (x)\nint a = b + +c; // sum\nconst char *s = \"/* a  b */\";\n"
	for name, same := range map[string]string{
		"comments":     "/* head\n * of file */\n#define F(x) (x) /* c */\nint a = b + +c;\nconst char *s = \"/* a  b */\"; /* \"//\" */\n",
		"indentation":  "\n  #define F(x)   (x)\n\tint   a=b + +c ;\n\n\nconst char*s=\"/* a  b */\" ;",
		"line breaks":  "#define F(x) \\\n  (x)\nint a =\n  b + +c; const\nchar *s = \"/* a  b */\";",
		"carriage":     "#define F(x) (x)\r\nint a = b + +c;\r\nconst char *s = \"/* a  b */\";\r\n",
		"line comment": "// F\n#define F(x) (x) // it's x\nint a = b + +c;\nconst char *s = \"/* a  b */\";",
	} {
		if got, want := CodeOnly(same), CodeOnly(base); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for name, other := range map[string]string{
		"a name":            "#define F(y) (y)\nint a = b + +c;\nconst char *s = \"/* a  b */\";\n",
		"an operator":       "#define F(x) (x)\nint a = b ++c;\nconst char *s = \"/* a  b */\";\n",
		"a macro's list":    "#define F (x) (x)\nint a = b + +c;\nconst char *s = \"/* a  b */\";\n",
		"a literal":         "#define F(x) (x)\nint a = b + +c;\nconst char *s = \"/* a b */\";\n",
		"words joined":      "#define F(x) (x)\ninta = b + +c;\nconst char *s = \"/* a  b */\";\n",
		"a directive":       "#define F(x) (x) int a = b + +c;\nconst char *s = \"/* a  b */\";\n",
		"code in a comment": "#define F(x) (x)\n// int a = b + +c;\nconst char *s = \"/* a  b */\";\n",
	} {
		if CodeOnly(other) == CodeOnly(base) {
			t.Errorf("%s: two different sources have the same code", name)
		}
	}
}

// TestABINamesEveryKernel: every kernel has a word of its own. The build with which tables were first
// measured has a word for each kernel of that time.
func TestABINamesEveryKernel(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Declarations() {
		word := ABI().Of(f.Kernel.Name)
		if hash := word[strings.IndexByte(word, '.')+1:]; len(hash) != 16 || seen[word] {
			t.Errorf("%s: %q is not a word of its own", f.Kernel.Name, word)
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
