//go:build cuda || nvrtc

package nvrtc

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "loader.h"
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"
)

// Env names the environment variable with the folder in which Open first looks for libnvrtc.
const Env = "EPBENCH_NVRTC"

// sonames lists names of the library, newest first.
var sonames = []string{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}

// Library is a loaded libnvrtc. Several goroutines may use it: NVRTC compiles in parallel.
type Library struct {
	c       C.EpNvrtc
	version string
}

// Open looks for libnvrtc in the folders of candidates. Its error lists what was tried.
func Open() (*Library, error) {
	var tried []string
	exe, _ := os.Executable() // on an error, candidates skips the folders beside the program
	for _, path := range candidates(exe) {
		l := &Library{}
		if why := l.load(path); why != "" {
			tried = append(tried, why)
			continue
		}
		var major, minor C.int
		if r := C.ep_nvrtc_version(&l.c, &major, &minor); r != 0 {
			tried = append(tried, path+": "+l.errorText(r))
			continue
		}
		l.version = fmt.Sprintf("%d.%d", major, minor)
		return l, nil
	}
	return nil, fmt.Errorf("no libnvrtc: install the Python package nvidia-cuda-nvrtc with this program (pip install 'epbench[cuda]'), set %s to the folder that holds it, or run make cuda-deps in the repository whose bin holds this program (%s)", Env, strings.Join(tried, "; "))
}

// candidates lists the libraries to try, for the program at exe: in $EPBENCH_NVRTC, beside the program, in
// .cuda of the repository whose bin holds the program, in Python packages installed with the program, where
// the dynamic linker looks, in $CUDA_HOME/lib64 and in /usr/local/cuda/lib64.
func candidates(exe string) []string {
	var folders []string
	if dir := os.Getenv(Env); dir != "" {
		folders = append(folders, dir)
	}
	if exe != "" {
		bin := filepath.Dir(exe)
		folders = append(folders, bin, filepath.Join(bin, "..", ".cuda", "lib64"))
		folders = append(folders, wheels(bin)...)
	}
	var out []string
	for _, dir := range folders {
		out = append(out, existing(dir)...)
	}
	out = append(out, sonames...)
	if home := os.Getenv("CUDA_HOME"); home != "" {
		out = append(out, existing(filepath.Join(home, "lib64"))...)
	}
	return append(out, existing("/usr/local/cuda/lib64")...)
}

// wheels lists the folders into which NVIDIA's Python wheels put libraries. bin is the folder of a
// program that pip installed, in an environment or by pip install --target. The folder of CUDA 13
// (cu13) comes before the folder of CUDA 12 (cuda_nvrtc).
func wheels(bin string) []string {
	var out []string
	for _, packages := range []string{"../lib/python3*/*-packages", ".."} {
		found, _ := filepath.Glob(filepath.Join(bin, packages, "nvidia", "*", "lib")) // a fixed pattern
		out = append(out, found...)
	}
	return out
}

// existing lists the libraries of a folder that exist, so that errors name no other paths.
func existing(dir string) []string {
	var out []string
	for _, name := range sonames {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			out = append(out, path)
		}
	}
	return out
}

// load opens the library. It returns "", or the reason why the library cannot be opened. It first
// loads every libnvrtc-builtins in the same folder, so that libnvrtc finds the one of its version.
func (l *Library) load(path string) string {
	if dir := filepath.Dir(path); dir != "." {
		builtins, _ := filepath.Glob(filepath.Join(dir, "libnvrtc-builtins.so.*")) // a fixed pattern
		for _, b := range builtins {
			p := C.CString(b)
			C.ep_nvrtc_preload(p) // an error shows later, when something is compiled
			C.free(unsafe.Pointer(p))
		}
	}
	p := C.CString(path)
	defer C.free(unsafe.Pointer(p))
	return C.GoString(C.ep_nvrtc_load(&l.c, p))
}

func (l *Library) errorText(r C.int) string { return C.GoString(C.ep_nvrtc_error(&l.c, r)) }

// Version returns the library's version, such as 13.0.
func (l *Library) Version() string { return l.version }

// A Program is one translation unit.
type Program struct {
	Source  string            // main file
	Headers map[string]string // the text of each header, by its name in #include
	Options []string          // in the syntax of nvcc
}

// CompileError holds the compiler's log of a program that does not compile.
type CompileError struct{ Log string }

// Error returns the first line of the log that mentions an error.
func (e *CompileError) Error() string {
	for line := range strings.SplitSeq(e.Log, "\n") {
		if strings.Contains(line, "error") {
			return "nvrtc: " + strings.TrimSpace(line)
		}
	}
	return "nvrtc: " + strings.TrimSpace(e.Log)
}

// Compile returns a binary for the architecture that the options name, and the compiler's log.
func (l *Library) Compile(p Program) (cubin []byte, log string, err error) {
	var names []string
	for name := range p.Headers {
		names = append(names, name)
	}
	slices.Sort(names)
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = p.Headers[name]
	}
	cnames, ctexts, coptions := newStrings(names), newStrings(texts), newStrings(p.Options)
	defer cnames.free()
	defer ctexts.free()
	defer coptions.free()
	source := C.CString(p.Source)
	defer C.free(unsafe.Pointer(source))

	var program unsafe.Pointer
	if r := C.ep_nvrtc_create(&l.c, &program, source, C.int(len(names)), ctexts.first(), cnames.first()); r != 0 {
		return nil, "", fmt.Errorf("nvrtc: create program: %s", l.errorText(r))
	}
	defer C.ep_nvrtc_destroy(&l.c, program)
	result := C.ep_nvrtc_compile(&l.c, program, C.int(len(p.Options)), coptions.first())
	var text *C.char
	var n C.size_t
	if r := C.ep_nvrtc_log(&l.c, program, &text, &n); r == 0 {
		log = strings.TrimRight(string(take(text, n)), "\x00\n")
	}
	if result != 0 {
		return nil, log, &CompileError{l.errorText(result) + "\n" + log}
	}
	if r := C.ep_nvrtc_cubin(&l.c, program, &text, &n); r != 0 {
		return nil, log, fmt.Errorf("nvrtc: get binary: %s", l.errorText(r))
	}
	return take(text, n), log, nil
}

// take copies a malloc'ed buffer and frees it.
func take(p *C.char, n C.size_t) []byte {
	defer C.free(unsafe.Pointer(p))
	return C.GoBytes(unsafe.Pointer(p), C.int(n))
}

// cstrings holds an array of C strings in C memory.
type cstrings struct {
	array unsafe.Pointer
	items []*C.char
}

func newStrings(s []string) cstrings {
	c := cstrings{array: C.calloc(C.size_t(len(s)+1), C.size_t(unsafe.Sizeof(uintptr(0))))}
	c.items = unsafe.Slice((**C.char)(c.array), len(s))
	for i, t := range s {
		c.items[i] = C.CString(t)
	}
	return c
}

func (c cstrings) first() **C.char { return (**C.char)(c.array) }

func (c cstrings) free() {
	for _, p := range c.items {
		C.free(unsafe.Pointer(p))
	}
	C.free(c.array)
}
