package sources

import "testing"

// TestCodeOnly: sources have the same code if they differ only in comments and white space.
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

func TestClosure(t *testing.T) {
	files, err := Closure("common/expert.cuh")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"common/expert.cuh", "common/check.cuh", "common/ptx.cuh", "ep_args.h"} {
		if files[want] == "" {
			t.Errorf("%s is not among the sources", want)
		}
	}
	v, err := NewUnit("common/align.cuh", []string{"EP_HIDDEN=7168", "EP_DTYPE=1"}, nil)
	if err != nil || len(v.Defines) != 0 {
		t.Errorf("the alignment depends on %v (%v)", v.Defines, err)
	}
	if _, err := Closure("no/such.cuh"); err == nil {
		t.Error("no error for a source that does not exist")
	}
}
