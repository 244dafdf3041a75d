//go:build cuda || nvrtc

package cuda

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/nvrtc"
	"github.com/epbench/epbench/tune/ep"
)

// CacheEnv names the folder of compiled units; "off" keeps none.
const CacheEnv = "EPBENCH_CACHE"

// Compiler turns units into binaries for one architecture and remembers them on
// disk. It needs libnvrtc and no GPU. It is safe for several goroutines and several
// processes.
type Compiler struct {
	library *nvrtc.Library
	arch    string
	defines []string           // NAME=VALUE, of every unit
	cache   string             // folder, "" for none
	running singleflight.Group // by key, so that a unit is compiled once
}

// NewCompiler opens libnvrtc. arch is ArchName's; every unit gets these defines
// besides its own.
func NewCompiler(arch string, defines ...string) (*Compiler, error) {
	l, err := nvrtc.Open()
	if err != nil {
		return nil, err
	}
	return &Compiler{library: l, arch: arch, defines: defines, cache: cacheFolder()}, nil
}

// cacheFolder is the folder of compiled units, "" where there is none and none
// can be made: then everything is compiled again.
func cacheFolder() string {
	dir := os.Getenv(CacheEnv)
	if dir == "off" {
		return ""
	}
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(base, "epbench", "cuda")
	}
	if os.MkdirAll(dir, 0o755) != nil {
		return ""
	}
	return dir
}

// image is a compiled unit.
type image struct {
	cubin []byte
	log   string // of ptxas
}

// CompileAll gives the binaries of units, compiled side by side, in their order.
func (c *Compiler) CompileAll(units ...Unit) ([][]byte, error) {
	out := make([][]byte, len(units))
	var g errgroup.Group
	g.SetLimit(runtime.NumCPU())
	for i, u := range units {
		g.Go(func() error {
			b, err := c.compile(u)
			out[i] = b.cubin
			return err
		})
	}
	return out, g.Wait()
}

// compile gives the binary of a unit. A source that does not compile is
// the candidate's Failure.
func (c *Compiler) compile(u Unit) (image, error) {
	u.Defines = slices.Concat(u.Defines, c.defines)
	key, err := u.key(c.arch, "nvrtc "+c.library.Version())
	if err != nil {
		return image{}, kernels.Failf(ep.NoBuild, "%v", err)
	}
	b, err, _ := c.running.Do(key, func() (any, error) {
		if b, ok := c.load(key); ok {
			return b, nil
		}
		return c.build(u, key)
	})
	if err != nil {
		return image{}, err
	}
	return b.(image), nil
}

// build compiles and keeps a unit.
func (c *Compiler) build(u Unit, key string) (image, error) {
	headers, err := closure(u.Source)
	if err != nil {
		return image{}, kernels.Failf(ep.NoBuild, "%v", err)
	}
	cubin, log, err := c.library.Compile(nvrtc.Program{Source: u.text(), Headers: headers, Options: u.options(c.arch)})
	if err != nil {
		return image{}, kernels.Failf(ep.NoBuild, "%s for %s: %v", u.Source, c.arch, err)
	}
	b := image{cubin, log}
	c.store(key, b)
	return b, nil
}

func (c *Compiler) load(key string) (image, bool) {
	if c.cache == "" {
		return image{}, false
	}
	path := filepath.Join(c.cache, key)
	log, err := os.ReadFile(path + ".log")
	if err != nil {
		return image{}, false
	}
	cubin, err := os.ReadFile(path + ".cubin")
	return image{cubin, string(log)}, err == nil && len(cubin) > 0
}

// store writes the binary before the log, and each by renaming, so that load finds
// both complete or nothing. Where the disk is full nothing is kept.
func (c *Compiler) store(key string, b image) {
	if c.cache == "" {
		return
	}
	path := filepath.Join(c.cache, key)
	if writeWhole(path+".cubin", b.cubin) == nil {
		_ = writeWhole(path+".log", []byte(b.log))
	}
}

func writeWhole(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already when the rename worked
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
