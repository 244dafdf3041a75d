package worker

import (
	"slices"
	"testing"
)

func TestTracesAreShortened(t *testing.T) {
	trace := "Traceback (most recent call last):\n  File \"w.py\", line 3, in <module>\n    main()\n  File \"h.py\", line 9, in main\n    import numpy\n    ^^^^\nModuleNotFoundError: No module named 'numpy'\n"
	ranked := "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"w.py\", line 3, in <module>\n[rank1]:     main()\n[rank1]: ValueError: 5\n"
	const short = `ModuleNotFoundError: No module named 'numpy' (File "h.py", line 9)`
	for _, c := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"out of memory\n  of 4 GiB\n", []string{"out of memory", "  of 4 GiB"}},
		{"starting\n" + trace, []string{"starting", short}},
		{trace + trace, []string{short}},
		{ranked + "bye\n", []string{`[rank1]: ValueError: 5 (File "w.py", line 3)`, "bye"}},
		{"Traceback (most recent call last):\nKeyError: 1\n", []string{"KeyError: 1"}},
		{"a\nTraceback (most recent call last):\n  File \"w.py\", line 3", []string{"a"}},
	} {
		if got := withoutTraces(c.text); !slices.Equal(got, c.want) {
			t.Errorf("withoutTraces(%q) = %q, want %q", c.text, got, c.want)
		}
	}
}
