package sweep

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestEdges: there is no warning if the kernel or the user sets the end of a range.
func TestEdges(t *testing.T) {
	falling := func(_ ep.Problem, _ string, c ep.Config) float64 { return 1e-4 / float64(c.Int("sms")) }
	rising := func(_ ep.Problem, _ string, c ep.Config) float64 { return 1e-6 * float64(c.Int("sms")) }
	for name, c := range map[string]struct {
		truth  func(ep.Problem, string, ep.Config) float64
		sms    []int
		params map[string][]ep.Value
		want   string
	}{
		"inside":                    {nil, []int{8, 16, 32, 64}, nil, ""},
		"largest":                   {nil, []int{4, 8, 16}, nil, "sms of dispatch is 16, the largest value searched, in 2 of the 2 winners, and the kernel runs with 24 too: sweep again with --param sms=4,8,16,24"},
		"least":                     {rising, []int{6, 8, 16}, nil, "sms of dispatch is 6, the least value searched, in 2 of the 2 winners, and the kernel runs with 4 too: sweep again with --param sms=4,6,8,16"},
		"kernel's bound":            {falling, []int{8, 16, 32, 64}, nil, ""},
		"user's bound":              {nil, []int{4, 8, 16, 32}, map[string][]ep.Value{"sms": {"4", "8", "16"}}, ""},
		"too few values":            {falling, []int{8, 16}, nil, ""},
		"the next value is as fast": {func(_ ep.Problem, _ string, c ep.Config) float64 { return 1e-4 / float64(min(c.Int("sms"), 16)) }, []int{8, 16, 17}, nil, ""},
		"bound by max sms":          {falling, []int{4, 8, 16}, nil, ""},
	} {
		o := options(t, "dispatch", []int{1, 16}, "uniform")
		o.Params = c.params
		if name == "bound by max sms" {
			o.MaxSMs = 16
		}
		out := mustSweep(t, &scripted{SMs: c.sms, Truth: c.truth, Sigma: 0.001}, o, t.TempDir())
		got := ""
		for _, w := range out.Run.Warnings {
			if strings.Contains(w, "value searched") {
				got += w
			}
		}
		if got != c.want {
			t.Errorf("%s: got  %q\nwant %q", name, got, c.want)
		}
	}
}
