package ep_test

import (
	"os/exec"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"run": "run", "a/b-c.json": "a/b-c.json", "trace:t.npz@0123": "trace:t.npz@0123", "": "''", "run with space & $HOME": "'run with space & $HOME'", "it's": `'it'\''s'`, "a\nb": "'a\nb'", "*": "'*'", "~x": "'~x'",
	} {
		if got := ep.Quote(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
		out, err := exec.Command("sh", "-c", "printf %s "+ep.Quote(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q: a shell reads %q, %v", word, out, err)
		}
	}
}
