package sweep

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

func withSMs(n string) ep.Config {
	return ep.Config{Kernel: "dispatch", Values: map[string]ep.Value{"algo": "direct", "sms": ep.Value(n), "threads": "256"}}
}

func inUse(o *Options, sms map[ep.Class]string) *table.Table {
	out := &table.Table{}
	out.Header.Fallback = []string{"routing"}
	for _, class := range ep.Classes() {
		n, ok := sms[class]
		if !ok {
			continue
		}
		r := table.Row{Key: table.KeyOf(o.Problems[0], class), Lo: 1, Hi: 64, Default: n == ""}
		if !r.Default {
			r.Config = withSMs(n)
		}
		out.Rows = append(out.Rows, r)
	}
	return out
}

func TestIncumbentForAllRoutings(t *testing.T) {
	o := exactOptions(t, []int{16}, "uniform", "zipf:1.5")
	o.Incumbent = inUse(o, map[ep.Class]string{ep.Even: "16", ep.Skewed: "32", ep.AllRoutings: "64"})
	out := mustSweep(t, exact(shares{16: {
		"uniform":  {16: 0.5, 32: 0.520, 64: 0.5175},
		"zipf:1.5": {32: 0.5, 16: 0.520, 64: 0.5175},
	}}), o, t.TempDir())
	want := []string{"all 16-16 sms=64 gain=1.932 regret=0.035 [16] [uniform zipf:1.5]"}
	if got := briefs(out, ep.AllRoutings); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestIncumbentOfItsClass: if the class's config cannot run here, the search takes the row for all routings.
func TestIncumbentOfItsClass(t *testing.T) {
	for class, want := range map[string]string{"": "32", "99": "64"} {
		o := exactOptions(t, []int{16}, "uniform")
		o.Incumbent = inUse(o, map[ep.Class]string{ep.Even: class, ep.AllRoutings: "64"})
		out := mustSweep(t, exact(shares{16: {"uniform": {32: 0.5, 64: 0.504}}}), o, t.TempDir())
		if got := out.Run.Searches[0].Decision.Config.Str("sms"); got != want {
			t.Errorf("row of the class %q: sms=%s, want %s", class, got, want)
		}
	}
}

func TestConstraintsBindStarts(t *testing.T) {
	required := "required: ['dispatch:algo=direct,sms=32,threads=256']\n"
	for more, want := range map[string]string{"": "8", required: "32"} {
		o := exactOptions(t, []int{16}, "uniform")
		o.Space = spaceFile(t, "constraints:\n  - {name: few, keep: sms <= 16}\n"+more)
		b := exact(shares{16: {"uniform": {32: 0.5}}})
		b.Starts = func(ep.Machine, ep.Problem) []ep.Config { return []ep.Config{withSMs("32")} }
		out := mustSweep(t, b, o, t.TempDir())
		if got := out.Run.Searches[0].Decision.Config.Str("sms"); got != want {
			t.Errorf("%q: sms=%s, want %s", more, got, want)
		}
	}
}

func TestSpaceFileNamesWhatIsThere(t *testing.T) {
	for text, want := range map[string]string{
		"kernels: {dispach: {}}":                                            `space: kernels.dispach: this backend has no kernel "dispach"; it has combine, dispatch`,
		"constraints:\n  - {keep: sms <= 16, kernels: [dispach]}":           `space: constraints[0].kernels: this backend has no kernel "dispach"`,
		"required: ['dispach:algo=direct,sms=32,threads=256']":              `space: required[0]: this backend has no kernel "dispach"`,
		"required: ['dispatch:algo=direct,sms=99,threads=256']":             "space: required: dispatch:algo=direct,sms=99,threads=256 cannot run here: sms: 99 is outside 1 to 64",
		"required: ['combine:algo=direct,sms=99,threads=256']":              "",
		"constraints:\n  - {keep: sms <= 16, kernels: [dispatch, combine]}": "",
	} {
		o := exactOptions(t, []int{16}, "uniform")
		o.Space = spaceFile(t, text)
		_, err := MakePlan(exact(nil), o)
		if got := fmt.Sprint(err); (err == nil) != (want == "") || !strings.HasPrefix(got, want) && want != "" {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
