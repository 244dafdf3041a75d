package cuda

import "testing"

// What an ABI must not mind, and what it must.
func TestCodeOnly(t *testing.T) {
	base := "#define F(x) (x)\nint a = b + +c; // sum\nconst char *s = \"/* a  b */\";\n"
	for name, same := range map[string]string{
		"comments":     "/* head\n * of file */\n#define F(x) (x) /* c */\nint a = b + +c;\nconst char *s = \"/* a  b */\"; /* \"//\" */\n",
		"indentation":  "\n  #define F(x)   (x)\n\tint   a=b + +c ;\n\n\nconst char*s=\"/* a  b */\" ;",
		"line breaks":  "#define F(x) \\\n  (x)\nint a =\n  b + +c; const\nchar *s = \"/* a  b */\";",
		"carriage":     "#define F(x) (x)\r\nint a = b + +c;\r\nconst char *s = \"/* a  b */\";\r\n",
		"line comment": "// F\n#define F(x) (x) // it's x\nint a = b + +c;\nconst char *s = \"/* a  b */\";",
	} {
		if got, want := codeOnly(same), codeOnly(base); got != want {
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
		if codeOnly(other) == codeOnly(base) {
			t.Errorf("%s: taken for the same code", name)
		}
	}
}

// The name of today's build is its own hash or that of an older build of the
// same binaries. An entry that names other sources serves nobody.
func TestSameBinaries(t *testing.T) {
	for h, name := range sameBinaries {
		if h != sourceHash() {
			t.Errorf("sameBinaries[%.12s] is of other sources: delete it, or prove anew that %.12s gives the same binaries as %.12s", h, sourceHash(), name)
		}
		if ABI() != name || len(name) != 64 {
			t.Errorf("ABI is %s, want %s", ABI(), name)
		}
	}
	if len(sameBinaries) == 0 && ABI() != sourceHash() {
		t.Errorf("ABI is %s, want the sources' own %s", ABI(), sourceHash())
	}
}
