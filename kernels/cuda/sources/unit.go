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

// A Unit is a source file with macros, compiled into one device binary.
type Unit struct {
	Source  string   `json:"source"`  // path under native/kernels
	Defines []string `json:"defines"` // NAME=VALUE
}

// Key returns the source and the macros of u in one line.
func (u Unit) Key() string { return strings.Join(append([]string{u.Source}, u.Defines...), " ") }

// Surviving returns u with the macro for calls that go on after ranks are lost.
func (u Unit) Surviving() Unit {
	u.Defines = append(slices.Clip(u.Defines), "EP_SURVIVORS=1")
	return u
}

// RoundBlocks is the largest number of blocks of a kernel in a pack.
const RoundBlocks = 192

// Packed returns u with the macro EP_OWN_ROUNDS, with which the device counts calls. Packs need this
// macro.
func (u Unit) Packed() Unit {
	u.Defines = append(slices.Clip(u.Defines), fmt.Sprintf("EP_OWN_ROUNDS=%d", RoundBlocks))
	return u
}

// NewUnit returns a unit with the macros `own`, and with those of `problem` that the source or its includes mention.
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

// Text returns the text that is compiled, without the macros.
func (u Unit) Text() string { return "#include \"" + u.Source + "\"\n" }

// Options returns the compiler's options for an architecture such as sm_90a. Do not add fast math: quantized bytes
// must equal those of package ref.
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
	BesideSource = "beside/load.cuh" // artificial loads
	CopySource   = "beside/copy.cuh"
)

// HostsFolder holds the sources of kernels that cross hosts.
const HostsFolder = "hosts/"

// CrossesHosts reports whether the unit is linked to NVSHMEM.
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

// ArchName returns a machine's architecture in the spelling of the compiler, such as sm_90a for sm_90.
func ArchName(m ep.Machine) (string, error) {
	var n int
	if _, err := fmt.Sscanf(m.Arch, "sm_%d", &n); err != nil || n < 50 {
		return "", fmt.Errorf("arch: %q is no GPU architecture such as sm_90", m.Arch)
	}
	return ArchOf(n/10, n%10), nil
}

// ArchOf returns a compute capability in the spelling of the compiler. From 9.0 on, it ends with the letter a, which
// allows architecture-specific instructions.
func ArchOf(major, minor int) string {
	if major >= 9 {
		return fmt.Sprintf("sm_%d%da", major, minor)
	}
	return fmt.Sprintf("sm_%d%d", major, minor)
}
