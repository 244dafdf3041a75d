package sources

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// A Unit is a source file and its macros. It is compiled into one device binary. Units with the
// same Key have the same binary.
type Unit struct {
	Source  string   `json:"source"`  // path under native/kernels
	Defines []string `json:"defines"` // NAME=VALUE
}

// Key names the binary of u. The name does not depend on the architecture or the compiler.
func (u Unit) Key() string { return strings.Join(append([]string{u.Source}, u.Defines...), " ") }

// Surviving returns u with the macro that lets calls go on after ranks are lost: see ep_alive in
// common/check.cuh.
func (u Unit) Surviving() Unit {
	u.Defines = append(slices.Clip(u.Defines), "EP_SURVIVORS=1")
	return u
}

// RoundBlocks is the value of EP_OWN_ROUNDS in the kernels of a pack. Their grids have at most
// this many blocks.
const RoundBlocks = 192

// Packed returns u with EP_OWN_ROUNDS, the macro that all units of a pack have.
func (u Unit) Packed() Unit {
	u.Defines = append(slices.Clip(u.Defines), fmt.Sprintf("EP_OWN_ROUNDS=%d", RoundBlocks))
	return u
}

// NewUnit returns the unit of a source with the macros of a problem and the macros `own`. A macro
// of the problem is left out if neither the source nor its includes mention it. So two problems
// share a binary if they differ only in such macros.
func NewUnit(source string, problem, own []string) (Unit, error) {
	u := Unit{Source: source}
	for _, d := range problem {
		name, _, _ := strings.Cut(d, "=")
		found, err := mentions(source, name)
		if err != nil {
			return u, err
		}
		if found {
			u.Defines = append(u.Defines, d)
		}
	}
	u.Defines = append(u.Defines, own...)
	return u, nil
}

// Text returns the text that is compiled. The macros are not in it: they are compiler options.
func (u Unit) Text() string { return "#include \"" + u.Source + "\"\n" }

// Options returns the compiler's options for an architecture such as sm_90a. Fast math is off,
// because quantized bytes must equal the oracle's, and the oracle divides as IEEE 754 says.
func (u Unit) Options(arch string) []string {
	out := []string{"--gpu-architecture=" + arch, "--std=c++17", "--ptxas-options=-v"}
	if u.CrossesHosts() {
		out = append(out, "-rdc=true")
	}
	for _, d := range u.Defines {
		out = append(out, "-D"+d)
	}
	return out
}

// Sources of kernels that belong to no op.
const (
	BesideSource = "beside/load.cuh" // artificial loads, and the kernel that fills the matrices of a matrix product
	CopySource   = "beside/copy.cuh" // the plain copy of CopyProbe
)

// HostsFolder holds the sources of kernels that cross hosts.
const HostsFolder = "hosts/"

// CrossesHosts reports whether the unit calls hosts/network.cuh. It is then compiled to a
// relocatable binary and linked to NVSHMEM.
func (u Unit) CrossesHosts() bool { return strings.HasPrefix(u.Source, HostsFolder) }

// Hash names the binary of u for an architecture and a compiler.
func (u Unit) Hash(arch, compiler string) (string, error) {
	headers, err := Closure(u.Source)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintln(h, compiler, u.Source, u.Options(arch))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		fmt.Fprintf(h, "%s %d\n%s", name, len(headers[name]), headers[name])
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// ArchName returns the compiler's name of a machine's architecture, such as sm_90a for sm_90.
func ArchName(m ep.Machine) (string, error) {
	var n int
	if _, err := fmt.Sscanf(m.Arch, "sm_%d", &n); err != nil || n < 50 {
		return "", fmt.Errorf("arch: %q is no GPU architecture such as sm_90", m.Arch)
	}
	return ArchOf(n/10, n%10), nil
}

// ArchOf returns the compiler's name of a compute capability. From 9.0 on it has the suffix a, which
// allows architecture-specific instructions: a binary is made for one architecture only.
func ArchOf(major, minor int) string {
	if major >= 9 {
		return fmt.Sprintf("sm_%d%da", major, minor)
	}
	return fmt.Sprintf("sm_%d%d", major, minor)
}
