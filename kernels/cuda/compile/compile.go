//go:build cuda || nvrtc

package compile

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/nvrtc"
	"github.com/epbench/epbench/kernels/cuda/shmem"
	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
)

// CacheEnv is the name of an environment variable. It holds the path of the cache's folder, or "off" for no cache.
const CacheEnv = "EPBENCH_CACHE"

// Compiler compiles units (source files with macros) for one architecture. Goroutines may share a Compiler, and
// processes may share its folder.
type Compiler struct {
	library *nvrtc.Library
	arch    string
	defines []string                 // NAME=VALUE, for every unit
	cache   string                   // folder, or "" for none
	running singleflight.Group       // compilations, by key
	network func() (*network, error) // opened on the first call
}

// NewCompiler opens libnvrtc and returns a compiler for an architecture. `arch` has the form that sources.ArchName
// returns, such as sm_90a. Every unit gets the macros `defines`.
func NewCompiler(arch string, defines ...string) (*Compiler, error) {
	l, err := nvrtc.Open()
	if err != nil {
		return nil, err
	}
	c := &Compiler{library: l, arch: arch, defines: defines, cache: cacheFolder()}
	c.network = sync.OnceValues(c.openNetwork)
	return c, nil
}

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
	removeStale(dir)
	return dir
}

// staleAfter is the age at which the temporary file of a killed process is removed.
const staleAfter = time.Hour

func removeStale(dir string) {
	names, _ := filepath.Glob(filepath.Join(dir, ".tmp-*"))
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && time.Since(info.ModTime()) > staleAfter {
			_ = os.Remove(name)
		}
	}
}

// CompileAll compiles units in parallel and returns their binaries in order.
func (c *Compiler) CompileAll(units ...sources.Unit) ([][]byte, error) {
	out := make([][]byte, len(units))
	var g errgroup.Group
	g.SetLimit(runtime.NumCPU())
	for i, u := range units {
		g.Go(func() (err error) {
			out[i], err = c.Compile(u)
			return err
		})
	}
	return out, g.Wait()
}

// Compile returns the binary of a unit. If the source does not compile, the error is a Failure.
func (c *Compiler) Compile(u sources.Unit) ([]byte, error) {
	u.Defines = slices.Concat(u.Defines, c.defines)
	key, err := u.Hash(c.arch, c.versions(u))
	if err != nil {
		return nil, kernels.Failf(ep.CompileFailed, "%v", err)
	}
	b, err, _ := c.running.Do(key, func() (any, error) {
		if b := c.load(key); b != nil {
			return b, nil
		}
		b, _, err := c.build(u)
		if err == nil {
			c.store(key, b)
		}
		return b, err
	})
	return b.([]byte), err
}

// versions returns the version of the compiler. For a unit that crosses hosts, it also returns the name of the bridge to
// NVSHMEM (see networkSource).
func (c *Compiler) versions(u sources.Unit) string {
	out := "nvrtc " + c.library.Version()
	if !u.CrossesHosts() {
		return out
	}
	folder, err := shmem.Folder()
	if err != nil {
		return out
	}
	name, _ := c.bridgeName(folder)
	return out + " " + name
}

// build compiles and links a unit. `log` holds the messages of ptxas.
func (c *Compiler) build(u sources.Unit) (cubin []byte, log string, err error) {
	headers, err := sources.Closure(u.Source)
	if err != nil {
		return nil, "", kernels.Failf(ep.CompileFailed, "%v", err)
	}
	cubin, log, err = c.library.Compile(nvrtc.Program{Source: u.Text(), Headers: headers, Options: u.Options(c.arch)})
	if err != nil {
		return nil, "", kernels.Failf(ep.CompileFailed, "%s for %s: %v", u.Source, c.arch, err)
	}
	if u.CrossesHosts() {
		cubin, err = c.linked(u, cubin)
	}
	return cubin, log, err
}

func (c *Compiler) file(key string) string { return filepath.Join(c.cache, key+".cubin") }

func (c *Compiler) load(key string) []byte {
	if c.cache == "" {
		return nil
	}
	b, err := os.ReadFile(c.file(key))
	if err != nil || len(b) == 0 {
		return nil
	}
	return b
}

// store writes a binary to the cache. It writes a temporary file and renames it, so that no reader finds an
// incomplete file.
func (c *Compiler) store(key string, b []byte) {
	if c.cache == "" {
		return
	}
	f, err := os.CreateTemp(c.cache, ".tmp-*")
	if err != nil {
		return
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	if errors.Join(err, f.Close()) == nil {
		_ = os.Rename(f.Name(), c.file(key))
	}
}
