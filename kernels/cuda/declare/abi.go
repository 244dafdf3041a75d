package declare

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"

	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
)

// ABI identifies the builds of the kernels by one word for each kernel. A table, a run or a pack stores the words of
// the kernels that it launches.
var ABI = sync.OnceValue(func() ep.ABI { return abiOf(Declarations()) })

// HostABI returns the words of the kernels that HostKernels lists.
func HostABI() ep.ABI { return abiOf(HostDeclarations()) }

// ABIOver returns the words of the kernels that KernelsOver lists.
func ABIOver(nodes int) ep.ABI {
	if nodes > 1 {
		return HostABI()
	}
	return ABI()
}

// abiOf returns a word for each kernel: its revision and its source hash. It also returns a word for each former kernel
// (Formerly): earlier builds had it, and another kernel now runs its configs. The word of a former kernel has no hash,
// so that rows from all its builds are accepted.
func abiOf(all []Declaration) ep.ABI {
	words := map[string]string{}
	for _, f := range all {
		words[f.Kernel.Name] = ep.Word(f.Kernel.Revision, f.sourceHash())
		for name, former := range f.Kernel.Formerly {
			words[name] = fmt.Sprintf("%d.", max(former.Revision, 1))
		}
	}
	return ep.NewABI(words)
}

// sourceHash returns a hash of 16 hex digits. It is made from the device source without comments, and from the name
// and binding of every parameter. Parameter values do not count, because a new value changes no measured config.
func (f Declaration) sourceHash() string {
	code, err := sources.Code(f.source)
	if err != nil {
		panic(err) // the sources are embedded
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s %s\n%s", f.Kernel.Name, f.Kernel.Op, code)
	for _, q := range f.Kernel.Params {
		fmt.Fprintf(h, "%s %s\n", q.Name, q.Binding)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
