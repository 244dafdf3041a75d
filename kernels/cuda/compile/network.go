//go:build cuda || nvrtc

package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/nvrtc"
	"github.com/epbench/epbench/kernels/cuda/shmem"
	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
)

// networkSource names the only device source that calls NVSHMEM. Its binary is
// called the bridge. The linker adds the bridge to units that cross hosts.
const networkSource = "hosts/nvshmem.cuh"

// network holds a linker, and the parts that the linker adds to units that cross hosts.
type network struct {
	linker *nvrtc.Linker
	parts  []nvrtc.Part
}

func (c *Compiler) openNetwork() (*network, error) {
	folder, err := shmem.Folder()
	if err != nil {
		return nil, err
	}
	linker, err := nvrtc.OpenLinker(filepath.Join(folder, "lib"))
	if err != nil {
		return nil, err
	}
	library, err := os.ReadFile(shmem.DeviceLibrary(folder))
	if err != nil {
		return nil, fmt.Errorf("NVSHMEM: %w", err)
	}
	bridge, err := c.bridge(folder)
	if err != nil {
		return nil, err
	}
	return &network{linker, []nvrtc.Part{
		{Name: networkSource, Data: bridge}, {Name: filepath.Base(shmem.DeviceLibrary(folder)), Data: library, Library: true},
	}}, nil
}

// bridge takes the binary of networkSource from NVSHMEM's folder or from the cache, or compiles it.
func (c *Compiler) bridge(folder string) ([]byte, error) {
	name, err := c.bridgeName(folder)
	if err != nil {
		return nil, err
	}
	if b, err := os.ReadFile(filepath.Join(folder, name+".cubin")); err == nil {
		return b, nil
	}
	cached := name + "-nvrtc-" + c.library.Version()
	if b := c.load(cached); b != nil {
		return b, nil
	}
	text, err := sources.Read(networkSource)
	if err != nil {
		return nil, err
	}
	include := filepath.Join(folder, "include")
	b, _, err := c.library.Compile(nvrtc.Program{Source: text, Options: []string{
		"--gpu-architecture=" + c.arch, "--std=c++17", "-rdc=true", "-I" + include, "-I" + filepath.Join(include, "cccl"),
	}})
	if err != nil {
		return nil, fmt.Errorf("%s for %s: %w", networkSource, c.arch, err)
	}
	c.store(cached, b)
	return b, nil
}

// NetworkVersion returns the version of NVSHMEM, such as 3.8.0. The host library must have the same version.
func (c *Compiler) NetworkVersion() (string, error) {
	folder, err := shmem.Folder()
	if err != nil {
		return "", err
	}
	return shmem.Version(folder)
}

func (c *Compiler) bridgeName(folder string) (string, error) {
	version, err := shmem.Version(folder)
	if err != nil {
		return "", err
	}
	text, err := sources.Read(networkSource)
	sum := sha256.Sum256([]byte(sources.CodeOnly(text)))
	return fmt.Sprintf("network-%s-%s-%s", version, c.arch, hex.EncodeToString(sum[:8])), err
}

func (c *Compiler) linked(u sources.Unit, cubin []byte) ([]byte, error) {
	n, err := c.network()
	if err != nil {
		return nil, err
	}
	out, _, err := n.linker.Link(c.arch, append([]nvrtc.Part{{Name: u.Source, Data: cubin}}, n.parts...))
	if err != nil {
		return nil, kernels.Failf(ep.CompileFailed, "%s for %s: %v", u.Source, c.arch, err)
	}
	return out, nil
}
