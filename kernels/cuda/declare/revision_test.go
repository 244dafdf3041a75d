package declare

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/testfile"
)

const parametersFile = "testdata/parameters.txt"

// meaning returns the text that defines a parameter. Values and default may change without a new meaning.
func meaning(q kernels.Param) string {
	text := fmt.Sprintf("%s %s", q.Binding, q.Class)
	if q.Unit != "" {
		text += ", in " + q.Unit
	}
	return text + ": " + q.Doc
}

// parameters returns a kernel's lines in parametersFile: revision, then parameters.
func parameters(k kernels.Kernel) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s revision %d\n", k.Name, max(k.Revision, 1))
	for _, q := range k.Params {
		fmt.Fprintf(&b, "\t%s %s\n", q.Name, meaning(q))
	}
	return b.String()
}

// recorded reads parametersFile: meanings by kernel and parameter. The parameter "" holds the revision.
func recorded(t *testing.T) map[string]map[string]string {
	text := testfile.Read(t, parametersFile)
	out := map[string]map[string]string{}
	var now map[string]string
	for _, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		if rest, ok := strings.CutPrefix(line, "\t"); ok {
			name, means, _ := strings.Cut(rest, " ")
			now[name] = means
			continue
		}
		name, _, _ := strings.Cut(line, " ")
		now = map[string]string{"": line}
		out[name] = now
	}
	return out
}

// bumpFaults compares a kernel's parameters with the recorded parameters in `was`. It returns a message for each change
// that needs a new revision or line.
func bumpFaults(k kernels.Kernel, was map[string]string) (faults []string) {
	revision, _, _ := strings.Cut(parameters(k), "\n")
	if was == nil {
		return []string{"the kernel is new: add its lines"}
	}
	if was[""] != revision {
		return []string{"the kernel's revision changed: replace its lines"}
	}
	known := map[string]bool{"": true}
	for _, q := range k.Params {
		known[q.Name] = true
		switch means, ok := was[q.Name]; {
		case !ok && q.Before == "":
			faults = append(faults, fmt.Sprintf("parameter %s is new: set Before to the value that configs without it used, or raise Revision", q.Name))
		case !ok:
			faults = append(faults, fmt.Sprintf("parameter %s is new: add its line", q.Name))
		case means != meaning(q):
			faults = append(faults, fmt.Sprintf("parameter %s was %q and is %q: raise Revision if a measured config now does something else, otherwise change its line",
				q.Name, means, meaning(q)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if !known[name] {
			faults = append(faults, fmt.Sprintf("parameter %s is gone: raise Revision", name))
		}
	}
	return faults
}

// TestRevisions: a new meaning of a parameter needs a new revision of the kernel. Edit testdata/parameters.txt by hand,
// with the lines that this test prints.
func TestRevisions(t *testing.T) {
	was := recorded(t)
	for _, k := range AllKernels() {
		if faults := bumpFaults(k, was[k.Name]); len(faults) > 0 {
			t.Errorf("%s: %s\nthe lines are\n%s", k.Name, strings.Join(faults, "; "), parameters(k))
		}
		delete(was, k.Name)
		for former := range k.Formerly {
			delete(was, former)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		t.Errorf("%s: the kernel is gone: delete its lines, or name it in Formerly", name)
	}
}

// TestForgottenRevisionIsFound: bumpFaults finds changes of meaning without a new revision.
func TestForgottenRevisionIsFound(t *testing.T) {
	base := combineLL().Kernel
	was := recorded(t)[base.Name]
	if faults := bumpFaults(base, was); faults != nil {
		t.Fatal(faults)
	}
	change := func(edit func(k *kernels.Kernel)) kernels.Kernel {
		k := base
		k.Params = slices.Clone(k.Params)
		edit(&k)
		return k
	}
	for name, c := range map[string]struct {
		kernel kernels.Kernel
		want   string
	}{
		"doc":     {change(func(k *kernels.Kernel) { k.Params[0].Doc = "something else" }), "raise Revision if"},
		"binding": {change(func(k *kernels.Kernel) { k.Params[0].Binding = "other" }), "raise Revision if"},
		"gone":    {change(func(k *kernels.Kernel) { k.Params = k.Params[1:] }), "is gone: raise Revision"},
		"new":     {change(func(k *kernels.Kernel) { k.Params = append(k.Params, kernels.Param{Name: "new"}) }), "set Before"},
		"kept":    {change(func(k *kernels.Kernel) { k.Params = append(k.Params, kernels.Param{Name: "new", Before: "0"}) }), "add its line"},
		"values":  {change(func(k *kernels.Kernel) { k.Params[0].Values = k.Params[0].Values[:1] }), ""},
		"bumped":  {change(func(k *kernels.Kernel) { k.Revision = 2; k.Params[0].Doc = "something else" }), "replace its lines"},
	} {
		got := strings.Join(bumpFaults(c.kernel, was), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
