package worker

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

func TestRefusals(t *testing.T) {
	if _, err := Open(t.Context(), Command{Argv: []string{"/nonexistent/worker"}}, DefaultLimits(), nil); err == nil {
		t.Error("a command that does not exist was started")
	}
	t.Setenv(scriptEnv, "honest")
	if _, err := Open(t.Context(), Command{Argv: []string{os.Args[0]}}, DefaultLimits(), Built("other", nil)); err == nil || !strings.Contains(err.Error(), "make cuda") {
		t.Errorf("other sources: %v", err)
	}
}

// TestLocalDeclarations: this program's declarations replace those of a worker of the same build.
func TestLocalDeclarations(t *testing.T) {
	declares := openScripted(t, "honest")
	own := declares.Kernels()[:1]
	own[0].Doc = "declared here"
	known := Built(declares.ABI(), append(own, kernels.Kernel{Name: own[0].Name, Op: ep.Activation}))
	b, err := Open(t.Context(), Command{Argv: []string{os.Args[0]}}, DefaultLimits(), known)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if got := b.Kernels(); len(got) != 1 || got[0].Op != own[0].Op || got[0].Doc != own[0].Doc {
		t.Errorf("%+v", got)
	}
}

func TestKnownRules(t *testing.T) {
	refuses := func(p string) func(ep.Machine, ep.Problem, ep.Config) error {
		return func(_ ep.Machine, _ ep.Problem, c ep.Config) error {
			if c.Str("p") == p {
				return fmt.Errorf("p: %s, refused here", p)
			}
			return nil
		}
	}
	w := Welcome{ABI: "mine", Kernels: []KernelDecl{{Name: "dispatch", Op: ep.Dispatch, Rules: []Rule{{Expr: "problem.ranks == 2", Reason: "two were launched"}},
		Params: []kernels.Param{{Name: "p", Values: []ep.Value{"1"}, Default: "1"}}}}}
	all, err := served(w, Built("mine", []kernels.Kernel{{Name: "dispatch", Op: ep.Dispatch, Check: refuses("3")}}))
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	for _, c := range []struct {
		ranks int
		p     ep.Value
		want  string // "" if legal
	}{{2, "1", ""}, {4, "1", "two were launched"}, {2, "3", "refused here"}} {
		err := all[0].Check(ep.Machine{}, ep.Problem{Ranks: c.ranks}, ep.Config{Kernel: "dispatch", Values: map[string]ep.Value{"p": c.p}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
