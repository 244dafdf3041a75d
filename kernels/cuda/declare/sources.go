package declare

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/epbench/epbench/native"
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
	u.Defines = append(slices.Clip(u.Defines), Define("EP_SURVIVORS", 1))
	return u
}

// NewUnit returns the unit of a source with the macros of the problem and the macros `own`. A macro
// of the problem is left out if neither the source nor its includes mention it. So two problems
// share a binary if they differ only in such macros.
func NewUnit(source string, p ep.Problem, own []string) (Unit, error) {
	u := Unit{Source: source}
	for _, d := range problemDefines(p) {
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

// Unit returns the binary that a legal config needs for a problem.
func (f Declaration) Unit(p ep.Problem, c ep.Config) (Unit, error) {
	return NewUnit(f.source, p, f.defines(c))
}

// mentioned caches the results of mentions. One search calls it thousands of times with a few names
// and a few sources.
var mentioned sync.Map

// mentions reports whether the code of a source has a name.
func mentions(source, name string) (bool, error) {
	key := [2]string{source, name}
	if found, ok := mentioned.Load(key); ok {
		return found.(bool), nil
	}
	code, err := codeOf(source)
	if err != nil {
		return false, err
	}
	found := strings.Contains(code, name)
	mentioned.Store(key, found)
	return found, nil
}

// codes caches the results of codeOf.
var codes sync.Map

// codeOf returns the code of a device source and of all that it includes, without comments.
func codeOf(source string) (string, error) {
	if code, ok := codes.Load(source); ok {
		return code.(string), nil
	}
	texts, err := Closure(source)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		fmt.Fprintf(&out, "%s\n%s\n", name, CodeOnly(texts[name]))
	}
	codes.Store(source, out.String())
	return out.String(), nil
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

var includeLine = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*"([^"]+)"`)

// Closure returns the texts of a device source and of everything it includes, by the names in
// #include lines. It follows conditional includes too. It leaves out files that it does not find:
// only the CPU emulation has them.
func Closure(source string) (map[string]string, error) {
	out := map[string]string{}
	todo := []string{source}
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if _, seen := out[name]; seen {
			continue
		}
		text, err := ReadSource(name)
		if err != nil {
			if name == source {
				return nil, err
			}
			continue
		}
		out[name] = text
		for _, m := range includeLine.FindAllStringSubmatch(text, -1) {
			todo = append(todo, m[1])
		}
	}
	return out, nil
}

// ReadSource returns the text of a file of native/kernels or native/include.
func ReadSource(name string) (string, error) {
	for _, dir := range []string{"kernels/", "include/"} {
		if text, err := fs.ReadFile(native.Sources, dir+name); err == nil {
			return string(text), nil
		}
	}
	return "", fmt.Errorf("device source %s is in neither native/kernels nor native/include", name)
}

// ArchOf returns the compiler's name of a compute capability. From 9.0 on it has the suffix a, which
// allows architecture-specific instructions: a binary is made for one architecture only.
func ArchOf(major, minor int) string {
	if major >= 9 {
		return fmt.Sprintf("sm_%d%da", major, minor)
	}
	return fmt.Sprintf("sm_%d%d", major, minor)
}
