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

// Env is the environment variable that holds the folder in which Open looks first.
const Env = "EPBENCH_NVRTC"

var sonames = []string{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}

// Library is a loaded libnvrtc. Several goroutines may use it.
type Library struct {
	c       C.EpNvrtc
	version string
}

// Open looks for libnvrtc. Its error lists what was tried.
func Open() (*Library, error) {
	var tried []string
	exe, _ := os.Executable()
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
	return nil, fmt.Errorf("no libnvrtc: install the Python package nvidia-cuda-nvrtc (pip install 'epbench[cuda]'), set %s to the folder of libnvrtc, or run make cuda-deps if this program is in the folder bin of epbench's repository (%s)", Env, strings.Join(tried, "; "))
}

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

// wheels lists folders of NVIDIA's Python packages.
func wheels(bin string) []string {
	var out []string
	for _, packages := range []string{"../lib/python3*/*-packages", ".."} {
		found, _ := filepath.Glob(filepath.Join(bin, packages, "nvidia", "*", "lib"))
		out = append(out, found...)
	}
	return out
}

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

// load returns "" for success, or the reason of the failure. libnvrtc-builtins must be loaded first.
func (l *Library) load(path string) string {
	if dir := filepath.Dir(path); dir != "." {
		builtins, _ := filepath.Glob(filepath.Join(dir, "libnvrtc-builtins.so.*"))
		for _, b := range builtins {
			p := C.CString(b)
			C.ep_nvrtc_preload(p)
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

// Program is one translation unit.
type Program struct {
	Source  string
	Headers map[string]string // by name in #include
	Options []string          // of nvcc
}

// CompileError holds the compiler's log.
type CompileError struct{ Log string }

// Error returns the log's first line about an error.
func (e *CompileError) Error() string {
	for line := range strings.SplitSeq(e.Log, "\n") {
		if strings.Contains(line, "error") {
			return "nvrtc: " + strings.TrimSpace(line)
		}
	}
	return "nvrtc: " + strings.TrimSpace(e.Log)
}

// Compile returns a binary and the compiler's log.
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

func take(p *C.char, n C.size_t) []byte {
	defer C.free(unsafe.Pointer(p))
	return C.GoBytes(unsafe.Pointer(p), C.int(n))
}

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
