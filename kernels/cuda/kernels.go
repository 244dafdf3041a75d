package cuda

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/native"
	"github.com/epbench/epbench/tune/ep"
)

// Kernels lists what the CUDA backend can sweep, with legality, for planning
// on hosts without a GPU.
func Kernels() []kernels.Kernel {
	all := families()
	out := make([]kernels.Kernel, len(all))
	for i, f := range all {
		out[i] = f.kernel
		out[i].Check = f.check
		if f.kernel.Op == ep.Combine {
			out[i].Pairs = pairsWithin(f, all)
		}
	}
	return out
}

// check is the family's legality, once c is known to set exactly the declared
// parameters.
func (f family) check(m ep.Machine, p ep.Problem, c ep.Config) error {
	known := map[string]bool{}
	for _, q := range f.kernel.Params {
		known[q.Name] = true
		if _, ok := c.Values[q.Name]; !ok {
			return fmt.Errorf("%s: not set, %s takes %s", q.Name, f.kernel.Name, q.Doc)
		}
	}
	for _, name := range c.Names() {
		if !known[name] {
			return fmt.Errorf("%s: %s has no such parameter", name, f.kernel.Name)
		}
	}
	return f.kernel.Check(m, p, c)
}

// pairsWithin lets a combine follow only dispatches that leave their tokens
// in the state it reads, and what the family itself asks for besides.
func pairsWithin(f family, all []family) func(dispatch, combine ep.Config) error {
	return func(dispatch, combine ep.Config) error {
		d, err := findFamily(all, dispatch.Kernel)
		if err != nil {
			return err
		}
		if d.state != f.state {
			return fmt.Errorf("combine: %s reads the %s state, which %s does not leave; pair it with a kernel that does",
				f.kernel.Name, f.state, dispatch.Kernel)
		}
		if f.kernel.Pairs == nil {
			return nil
		}
		return f.kernel.Pairs(dispatch, combine)
	}
}

// preReduced is how a combine with algo direct or dedup is judged: dedup
// rounds the partial sum of each rank.
func preReduced(_ ep.Problem, c ep.Config) ref.Compare {
	return ref.Compare{PreReduced: c.Str("algo") == "dedup"}
}

func findFamily(all []family, name string) (family, error) {
	for _, f := range all {
		if f.kernel.Name == name {
			return f, nil
		}
	}
	return family{}, fmt.Errorf("kernel: the CUDA backend has none called %q", name)
}

// ABI identifies the kernels: a hash over every device source and every
// parameter list. A table made under another ABI does not apply.
func ABI() string {
	h := sha256.New()
	// An embedded file system lists its files in a fixed order and cannot fail.
	_ = fs.WalkDir(native.Sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := native.Sources.ReadFile(path)
		fmt.Fprintf(h, "%s %d\n%s", path, len(text), text)
		return err
	})
	for _, f := range families() {
		params, _ := json.Marshal(f.kernel.Params) // plain strings only
		fmt.Fprintf(h, "%s %s %s\n", f.kernel.Name, f.kernel.Op, params)
	}
	return hex.EncodeToString(h.Sum(nil))
}
