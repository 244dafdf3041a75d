//go:build cuda || nvrtc

package nvrtc

// #include <stdlib.h>
// #include "link.h"
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"
)

var linkerNames = []string{"libnvJitLink.so.13", "libnvJitLink.so.12"}

// Linker is a loaded libnvJitLink. Several goroutines may use it.
type Linker struct {
	c       C.EpJitLink
	version string
}

// Part is one input of a link.
type Part struct {
	Name    string
	Data    []byte
	Library bool // an archive of host objects that contain device code
}

// OpenLinker loads libnvJitLink from a folder or from the system. Its error lists what was tried.
func OpenLinker(folder string) (*Linker, error) {
	var tried []string
	for _, path := range linkerPaths(folder) {
		l := &Linker{}
		if why := l.load(path); why != "" {
			tried = append(tried, why)
			continue
		}
		return l, nil
	}
	return nil, fmt.Errorf("no libnvJitLink: run make cuda-deps NVSHMEM=1 (%s)", strings.Join(tried, "; "))
}

func linkerPaths(folder string) []string {
	var out []string
	for _, dir := range []string{folder, ".", filepath.Join(os.Getenv("CUDA_HOME"), "lib64"), "/usr/local/cuda/lib64"} {
		for _, name := range linkerNames {
			path := filepath.Join(dir, name)
			if dir == "." {
				out = append(out, name) // where the dynamic linker looks
			} else if _, err := os.Stat(path); err == nil {
				out = append(out, path)
			}
		}
	}
	return out
}

func (l *Linker) load(path string) string {
	p := C.CString(path)
	defer C.free(unsafe.Pointer(p))
	if why := C.GoString(C.ep_jitlink_load(&l.c, p)); why != "" {
		return why
	}
	var major, minor C.uint
	if r := C.ep_jitlink_version(&l.c, &major, &minor); r != 0 {
		return fmt.Sprintf("%s: error %d", path, int(r))
	}
	l.version = fmt.Sprintf("%d.%d", major, minor)
	return ""
}

// Version returns the version, such as 13.0. NVRTC must not be newer.
func (l *Linker) Version() string { return l.version }

// Link links parts for an architecture such as sm_90a. The log says how many registers each kernel
// uses.
func (l *Linker) Link(arch string, parts []Part) (cubin []byte, log string, err error) {
	runtime.LockOSThread() // a link must stay on one thread
	defer runtime.UnlockOSThread()
	options := newStrings([]string{"-arch=" + arch, "-verbose"})
	defer options.free()
	var handle unsafe.Pointer
	if r := C.ep_jitlink_create(&l.c, &handle, 2, options.first()); r != 0 {
		return nil, "", fmt.Errorf("nvJitLink %s: create: error %d; nvJitLink must be at least as new as NVRTC", l.version, int(r))
	}
	defer C.ep_jitlink_destroy(&l.c, handle)
	for _, p := range parts {
		data := C.CBytes(p.Data)
		defer C.free(data) // read until the link is complete
		if err := l.add(handle, p, data); err != nil {
			return nil, "", err
		}
	}
	result := C.ep_jitlink_complete(&l.c, handle)
	var text *C.char
	var n C.size_t
	if result != 0 {
		if C.ep_jitlink_log(&l.c, handle, &text, &n) == 0 {
			log = strings.TrimRight(string(take(text, n)), "\x00\n")
		}
		return nil, log, fmt.Errorf("nvJitLink %s: %s", l.version, log)
	}
	if C.ep_jitlink_info(&l.c, handle, &text, &n) == 0 {
		log = strings.TrimRight(string(take(text, n)), "\x00\n")
	}
	if r := C.ep_jitlink_cubin(&l.c, handle, &text, &n); r != 0 {
		return nil, log, fmt.Errorf("nvJitLink %s: get binary: error %d", l.version, int(r))
	}
	return take(text, n), log, nil
}

func (l *Linker) add(handle unsafe.Pointer, p Part, data unsafe.Pointer) error {
	kind := C.int(C.EP_LINK_CUBIN)
	if p.Library {
		kind = C.EP_LINK_LIBRARY
	}
	name := C.CString(p.Name)
	defer C.free(unsafe.Pointer(name))
	if r := C.ep_jitlink_add(&l.c, handle, kind, data, C.size_t(len(p.Data)), name); r != 0 {
		return fmt.Errorf("nvJitLink %s: %s: error %d", l.version, p.Name, int(r))
	}
	return nil
}
