// Package shmem loads NVSHMEM, which moves bytes between hosts.
package shmem

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// Env is the environment variable that holds the path of the NVSHMEM folder. `make cuda-deps NVSHMEM=1` makes the
// folder.
const Env = "EPBENCH_NVSHMEM"

var errMissing = errors.New("no NVSHMEM: run make cuda-deps NVSHMEM=1 and set " + Env + " to .cuda/nvshmem, or copy that folder to nvshmem beside this program")

// Folder returns $EPBENCH_NVSHMEM, or nvshmem beside this program.
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

// Version returns the version of the NVSHMEM in a folder, such as 3.8.0.
func Version(folder string) (string, error) {
	text, err := os.ReadFile(filepath.Join(folder, "VERSION"))
	return strings.TrimSpace(string(text)), err
}

// DeviceLibrary returns the archive to which kernels are linked.
func DeviceLibrary(folder string) string { return filepath.Join(folder, "lib", "libnvshmem_device.a") }
