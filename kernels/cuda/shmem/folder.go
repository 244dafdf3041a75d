// Package shmem loads NVSHMEM, which transfers bytes between hosts. NVSHMEM has a symmetric heap
// over all ranks, and kernels write to addresses in this heap. The library is loaded when ranks
// join and never linked, so that the worker runs where it is missing.
package shmem

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// Env names the environment variable with the folder that make cuda-deps NVSHMEM=1 fills: lib/, include/
// and VERSION.
const Env = "EPBENCH_NVSHMEM"

// errMissing says how to get NVSHMEM.
var errMissing = errors.New("no NVSHMEM: run make cuda-deps NVSHMEM=1 and set " + Env + " to .cuda/nvshmem, or copy that folder to nvshmem beside this program")

// Folder returns the folder of NVSHMEM's files: $EPBENCH_NVSHMEM, or nvshmem beside this
// program.
func Folder() (string, error) {
	var tried []string
	if dir := os.Getenv(Env); dir != "" {
		tried = append(tried, dir)
	}
	if self, err := os.Executable(); err == nil {
		tried = append(tried, filepath.Join(filepath.Dir(self), "nvshmem"))
	}
	for _, dir := range tried {
		if _, err := os.Stat(filepath.Join(dir, "VERSION")); err == nil {
			return dir, nil
		}
	}
	return "", errMissing
}

// Version returns the version of the files in a folder, such as 3.8.0. Host library, device
// library and headers must have the same.
func Version(folder string) (string, error) {
	text, err := os.ReadFile(filepath.Join(folder, "VERSION"))
	return strings.TrimSpace(string(text)), err
}

// DeviceLibrary returns the archive of device code that kernels are linked to.
func DeviceLibrary(folder string) string { return filepath.Join(folder, "lib", "libnvshmem_device.a") }
