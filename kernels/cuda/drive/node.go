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
	"github.com/epbench/epbench/kernels/cuda/shmem"
	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
)

type gpu struct {
	index   int
	device  cu.Device
	context cu.CUContext
	major   int // compute capability
	minor   int
	sms     int
	shared  int // dynamic shared memory of a block, bytes

	mu      sync.Mutex
	arenas  pool[*arena] // idle
	staging pool[[]byte] // idle
}

// do makes the GPU's context current on a thread and runs f on this thread.
func (g *gpu) do(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cu.SetCurrentContext(g.context); err != nil {
		return fmt.Errorf("GPU %d: %w", g.index, err)
	}
	return f()
}

// node holds all GPUs of this host, and their modules.
type node struct {
	gpus     []*gpu
	apart    map[[2]int]error // why the first GPU cannot address the second
	compiler *compile.Compiler
	ahead    *compile.Queue
	modules  map[string]*module // by unit's key
	network  *shmem.Library     // for modules that cross hosts, or nil
}

func (n *node) addModule(m *module) error {
	if n.network == nil {
		return errors.New("this kernel crosses hosts, but this process is not a rank that a launcher started; see epbench docs multinode")
	}
	for i, loaded := range m.byGPU {
		if err := n.gpus[i].do(func() error { return n.network.AddModule(uint64(handle(loaded))) }); err != nil {
			return err
		}
	}
	return nil
}

// openGPUs opens the GPU with the index `only`, or all GPUs if `only` is negative. Every unit gets the macros
// `defines`.
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

func (n *node) arch() (string, error) {
	first := n.gpus[0]
	for _, g := range n.gpus {
		if g.major != first.major || g.minor != first.minor {
			return "", fmt.Errorf("GPU 0 is sm_%d%d and GPU %d sm_%d%d; choose GPUs of one kind with CUDA_VISIBLE_DEVICES",
				first.major, first.minor, g.index, g.major, g.minor)
		}
	}
	return sources.ArchOf(first.major, first.minor), nil
}

func (n *node) close() {
	if n.ahead != nil {
		n.ahead.Close()
	}
	for _, m := range n.modules {
		m.unload()
	}
	for _, g := range n.gpus {
		_ = g.do(func() error { g.freeStaging(); return g.freeIdle() })
		_ = g.device.ReleasePrimaryCtx()
	}
	n.gpus = nil
}

// module is a compiled unit, loaded on every GPU. A unit is a source file with its macros.
type module struct {
	unit  sources.Unit
	node  *node
	byGPU []cu.Module
}

// load compiles and loads a unit once. Never call it while a kernel waits for other ranks: it can happen that the
// driver loads nothing before that kernel ends.
func (n *node) load(u sources.Unit) (*module, error) {
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
		return nil, kernels.Failf(ep.LaunchFailed, "%s: %v", u.Source, err)
	}
	n.modules[key] = m
	return m, nil
}

// sideBySide calls f for every i below n in parallel. It returns the error with the lowest i.
func sideBySide(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return cmp.Or(errs...)
}

// unload ignores errors, because releasing the context frees modules too.
func (m *module) unload() {
	for i, loaded := range m.byGPU {
		if loaded != (cu.Module{}) {
			_ = m.node.gpus[i].do(loaded.Unload)
		}
	}
	m.byGPU = nil
}

func (m *module) function(entry string) ([]cu.Function, error) {
	var out []cu.Function
	for i, loaded := range m.byGPU {
		err := m.node.gpus[i].do(func() error {
			f, err := loaded.Function(entry)
			out = append(out, f)
			return err
		})
		if err != nil {
			return nil, kernels.Failf(ep.LaunchFailed, "%s has no entry %s: %v", m.unit.Source, entry, err)
		}
	}
	return out, nil
}
