//go:build cuda

package drive

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"gorgonia.org/cu"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/compile"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/cuda/shmem"
	"github.com/epbench/epbench/tune/ep"
)

// gpu is a device with its primary context.
type gpu struct {
	index   int
	device  cu.Device
	context cu.CUContext
	major   int // compute capability
	minor   int
	sms     int
	shared  int // dynamic shared memory a block may ask for, bytes

	mu      sync.Mutex
	arenas  pool[*arena]
	staging pool[[]byte] // of the host
}

// do runs f with the GPU's context current on its thread.
func (g *gpu) do(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cu.SetCurrentContext(g.context); err != nil {
		return fmt.Errorf("GPU %d: %w", g.index, err)
	}
	return f()
}

// node holds all GPUs of this host, and the modules loaded on them.
type node struct {
	gpus     []*gpu
	apart    map[[2]int]error // pairs that cannot address each other, and why
	compiler *compile.Compiler
	ahead    *compile.Queue
	modules  map[string]*module // by unit
	network  *shmem.Library     // for modules that cross hosts, nil without it
}

// addModule registers a loaded module with the network library.
func (n *node) addModule(m *module) error {
	if n.network == nil {
		return errors.New("it crosses hosts, and this process is no rank of a launched worker; see docs/multinode.md")
	}
	for i, loaded := range m.byGPU {
		if err := n.gpus[i].do(func() error { return n.network.AddModule(uint64(handle(loaded))) }); err != nil {
			return err
		}
	}
	return nil
}

// openGPUs opens GPU number only, or all GPUs where it is below 0. Every unit gets these defines
// besides its own.
func openGPUs(defines []string, only int) (*node, error) {
	count, err := cu.NumDevices()
	if err != nil {
		return nil, fmt.Errorf("count GPUs: %w", err)
	}
	if count == 0 {
		return nil, errors.New("the driver sees no GPU; check CUDA_VISIBLE_DEVICES")
	}
	n := &node{apart: map[[2]int]error{}, modules: map[string]*module{}}
	for i := range count {
		if only >= 0 && i != only {
			continue
		}
		g, err := openGPU(i)
		if err != nil {
			n.close()
			return nil, fmt.Errorf("GPU %d: %w", i, err)
		}
		g.index = len(n.gpus)
		n.gpus = append(n.gpus, g)
	}
	n.joinPeers()
	arch, err := n.arch()
	if err == nil {
		n.compiler, err = compile.NewCompiler(arch, defines...)
	}
	if err != nil {
		n.close()
		return nil, err
	}
	n.ahead = compile.NewQueue(n.compiler)
	return n, nil
}

func openGPU(i int) (*gpu, error) {
	device, err := cu.GetDevice(i)
	if err != nil {
		return nil, err
	}
	g := &gpu{index: i, device: device}
	if g.major, g.minor, err = device.ComputeCapability(); err != nil {
		return nil, err
	}
	if g.sms, err = device.Attribute(cu.MultiprocessorCount); err != nil {
		return nil, err
	}
	const sharedPerBlockOptIn = cu.DeviceAttribute(97) // CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
	if g.shared, err = device.Attribute(sharedPerBlockOptIn); err != nil {
		return nil, err
	}
	if g.context, err = device.RetainPrimaryCtx(); err != nil {
		return nil, fmt.Errorf("primary context: %w", err)
	}
	return g, nil
}

// joinPeers lets every GPU address every other, and records the pairs that cannot.
func (n *node) joinPeers() {
	for _, a := range n.gpus {
		for _, b := range n.gpus {
			if a == b {
				continue
			}
			err := a.do(func() error {
				can, err := a.device.CanAccessPeer(b.device)
				if err != nil {
					return err
				}
				if can == 0 {
					return errors.New("no peer access between them")
				}
				return b.context.EnablePeerAccess(0)
			})
			if err != nil && err != error(cu.PeerAccessAlreadyEnabled) {
				n.apart[[2]int{a.index, b.index}] = err
			}
		}
	}
}

// arch returns the architecture to compile for. All GPUs must have the same: a collective is as
// slow as its slowest rank.
func (n *node) arch() (string, error) {
	first := n.gpus[0]
	for _, g := range n.gpus {
		if g.major != first.major || g.minor != first.minor {
			return "", fmt.Errorf("GPU 0 is sm_%d%d and GPU %d sm_%d%d; choose GPUs of one kind with CUDA_VISIBLE_DEVICES",
				first.major, first.minor, g.index, g.major, g.minor)
		}
	}
	return declare.ArchOf(first.major, first.minor), nil
}

// close unloads modules and releases contexts.
func (n *node) close() {
	if n.ahead != nil {
		n.ahead.Close()
	}
	for _, m := range n.modules {
		m.unload()
	}
	for _, g := range n.gpus {
		_ = g.do(func() error { g.freeStaging(); return g.freeIdle() }) // the context goes next
		_ = g.device.ReleasePrimaryCtx()                                // a failure here helps nobody
	}
	n.gpus = nil
}

// module is a unit that is loaded on every GPU.
type module struct {
	unit  declare.Unit
	node  *node
	byGPU []cu.Module
}

// load compiles a unit and loads it on every GPU at once, unless that was done before. No load
// may happen while a kernel spins.
func (n *node) load(u declare.Unit) (*module, error) {
	key := u.Key()
	if m := n.modules[key]; m != nil {
		return m, nil
	}
	b, err := n.compiler.Compile(u)
	if err != nil {
		return nil, err
	}
	m := &module{unit: u, node: n, byGPU: make([]cu.Module, len(n.gpus))}
	err = sideBySide(len(n.gpus), func(i int) error {
		return n.gpus[i].do(func() (err error) {
			if m.byGPU[i], err = cu.LoadData(string(b)); err != nil {
				err = fmt.Errorf("load on GPU %d: %w", i, err)
			}
			return err
		})
	})
	if err == nil && u.CrossesHosts() {
		err = n.addModule(m)
	}
	if err != nil {
		m.unload()
		return nil, kernels.Failf(ep.NoLaunch, "%s: %v", u.Source, err)
	}
	n.modules[key] = m
	return m, nil
}

// sideBySide calls f for every i below n at the same time, and returns the first error.
func sideBySide(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return cmp.Or(errs...)
}

// unload unloads the module wherever it was loaded.
func (m *module) unload() {
	for i, loaded := range m.byGPU {
		if loaded != (cu.Module{}) {
			_ = m.node.gpus[i].do(loaded.Unload) // the context goes next
		}
	}
	m.byGPU = nil
}

// function returns an entry on every GPU.
func (m *module) function(entry string) ([]cu.Function, error) {
	var out []cu.Function
	for i, loaded := range m.byGPU {
		err := m.node.gpus[i].do(func() error {
			f, err := loaded.Function(entry)
			out = append(out, f)
			return err
		})
		if err != nil {
			return nil, kernels.Failf(ep.NoLaunch, "%s has no entry %s: %v", m.unit.Source, entry, err)
		}
	}
	return out, nil
}
