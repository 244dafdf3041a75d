package ep

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"sweep", "bench", "plot", "report", "deepseek-v3"}
	for name, want := range map[string]string{
		"swep": "sweep", "plto": "plot", "rep": "report", "deepseek": "deepseek-v3", "deepsek-v3": "deepseek-v3", "sweep": "sweep",
		"foo": "", "xyzzy": "", "": "", "b": "", "banana": "",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
	if got := DidYouMean("swep", known, "; see --help"); got != "; did you mean sweep?" {
		t.Error(got)
	}
	if got := DidYouMean("xyzzy", known, "; see --help"); got != "; see --help" {
		t.Error(got)
	}
}
