package worker

import (
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	t.Setenv("EPBENCH_TEST_DIR", "/a b")
	for line, want := range map[string]string{
		`python3 'my worker.py' --name "x y" $EPBENCH_TEST_DIR/z`:                                                       "python3|my worker.py|--name|x y|/a|b/z",
		`a ~ ~/x ~root/x {1,2} [x] *.go {"k":1} x#y`:                                                                    `a|~|~/x|~root/x|{1,2}|[x]|*.go|{k:1}|x#y`,
		`a "x\"y" z\ w '\n' \~ \# "" b$EPBENCH_TEST_NONE "$EPBENCH_TEST_DIR" "${EPBENCH_TEST_DIR}z" $EPBENCH_TEST_NONE`: `a|x"y|z w|\n|~|#||b|/a b|/a bz`,
		`a \`: `a|\`, // nothing follows the backslash, so it stays
	} {
		if got, err := Split(line); err != nil || strings.Join(got, "|") != want {
			t.Errorf("%s: %q, %v, want %s", line, got, err, want)
		}
	}
	for _, bad := range []string{"", "  ", `python3 'open`, `sh <(x)`, `a $((1+2))`, `a $(echo hi)`, "a `echo hi`", `a 2>err`, `a | b`, `a # c`, `# c`, `a;b`, `a;`, `a &`,
		`a && b`, `A=1 a b`, `a ${HOME:-x}`, `a $'x\ty'`, `a $1`, `a "$(b)"`, "a\nb", `! a`, `(a)`, `a !(b)`} {
		if got, err := Split(bad); err == nil {
			t.Errorf("%q is accepted as %q", bad, got)
		}
	}
	for line, why := range map[string]string{`a | b`: "sh -c", `# c`: "sh -c", "": "no worker command given", "  ": "no worker command given"} {
		if _, err := Split(line); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want an error with %q", line, err, why)
		}
	}
}
