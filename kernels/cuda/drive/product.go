//go:build cuda

package drive

// #include <stdlib.h>
// #include "ep_product.h"
// #include "ep_shim.h"
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
)

// products holds the work that runs beside a session's calls. The work is either a matrix product of cuBLASLt for each
// expert, or copies. One pass is the work of all experts. A plan is the way in which cuBLASLt computes a product on a
// number of SMs.
type products struct {
	ranks     *rankSet
	of        ep.Product
	memory    []productMemory        // by rank
	plans     map[int][]*C.EpProduct // by SMs (0: all), then rank
	own       int                    // SMs of the fastest plan, 0 for all
	chosen    bool                   // `own` is known
	batch     int                    // experts in a launch
	share     int                    // launches beside one call, 0 if unknown
	attention *products              // for attention; in decode steps only
}

// productMemory holds the addresses of the factors x and w, and of the result out.
type productMemory struct {
	x, w, out, workspace cu.DevicePtr
}

// One launch of a copy moves copyBytes bytes. Together, copyParts launches move more bytes than any L2 cache holds.
const (
	copyBytes = 64 << 20
	copyParts = 4
)

// workspaceBytes is the size of cuBLASLt's workspace that NVIDIA recommends for sm_90.
const workspaceBytes = 32 << 20

// cublasLtNames lists the files that are tried without EPBENCH_CUBLASLT.
var cublasLtNames = []string{"libcublasLt.so.13", "libcublasLt.so.12",
	"/usr/local/cuda/lib64/libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.12"}

func openCublasLt() error {
	names := cublasLtNames
	if at := os.Getenv("EPBENCH_CUBLASLT"); at != "" {
		names = []string{at}
		if info, err := os.Stat(at); err == nil && info.IsDir() {
			names = []string{filepath.Join(at, "libcublasLt.so.13"), filepath.Join(at, "libcublasLt.so.12")}
		}
	}
	var tried []error
	for _, name := range names {
		var text [C.EP_PRODUCT_TEXT]C.char
		path := C.CString(name)
		failed := C.ep_product_open(path, &text[0])
		C.free(unsafe.Pointer(path))
		if failed == 0 {
			return nil
		}
		tried = append(tried, errors.New(C.GoString(&text[0])))
	}
	return fmt.Errorf("beside: no cuBLASLt here (%w); install it with the CUDA toolkit or the wheel nvidia-cublas, name its folder in EPBENCH_CUBLASLT, or use --beside copy", errors.Join(tried...))
}

func (s *session) openProducts() error {
	of, ok := s.problem.Product()
	switch {
	case s.problem.Beside == "":
		return nil
	case !ok:
		return fmt.Errorf("beside: %q is not a matrix product or copy", s.problem.Beside)
	case s.backend.clock != clockChain:
		return fmt.Errorf("clock: %s cannot time a matrix product; use chain", s.backend.options.Clock)
	}
	if err := s.ranks.openStreams(); err != nil {
		return err
	}
	b, err := newProducts(s.ranks, of)
	s.beside = b
	if err == nil && of.Kind == ep.Step {
		b.attention, err = newProducts(s.ranks, attentionOf(s.problem, of))
		b.share = b.launchesPerPass()
	}
	if err != nil {
		b.close()
		return err
	}
	return nil
}

// attentionOf returns a product that takes the place of a layer's attention. The projections of attention have about
// 4 x hidden x hidden weights.
func attentionOf(p ep.Problem, experts ep.Product) ep.Product {
	q := ep.Product{Kind: ep.Gemm, M: max(p.Tokens, 1), N: 4 * p.Hidden, K: p.Hidden, DType: experts.DType, Groups: 1}
	if q.DType == ep.FP8 {
		q.M = (q.M + 15) / 16 * 16
	}
	return q
}

func (r *rankSet) openStreams() error {
	for i := range r.local {
		s := &r.local[i]
		err := s.gpu.do(func() error { return driverError("streams", C.ep_streams(&s.streams)) })
		if err != nil {
			return fmt.Errorf("rank %d: %w", i, err)
		}
	}
	return nil
}

func newProducts(r *rankSet, of ep.Product) (*products, error) {
	p := &products{ranks: r, of: of, memory: make([]productMemory, len(r.local))}
	if of.Kind != ep.Copy {
		if err := openCublasLt(); err != nil {
			return p, err
		}
	}
	if err := p.allocate(); err != nil {
		return p, err
	}
	if err := p.fill(); err != nil {
		return p, err
	}
	return p, p.plan(max(of.Groups, 1))
}

func (p *products) sizes() (x, w, out, workspace int64) {
	q := p.of
	if q.Kind == ep.Copy {
		return copyParts * copyBytes, 0, copyParts * copyBytes, 0
	}
	element := int64(2)
	if q.DType == ep.FP8 {
		element = 1
	}
	g, m, n, k := int64(q.Groups), int64(q.M), int64(q.N), int64(q.K)
	return g * m * k * element, g * n * k * element, g * m * n * 2, workspaceBytes
}

func (p *products) allocate() error {
	x, w, out, workspace := p.sizes()
	for i := range p.memory {
		m, g := &p.memory[i], p.ranks.local[i].gpu
		err := g.do(func() error {
			free, _, err := cu.MemInfo()
			if err != nil {
				return err
			}
			if need := x + w + out + workspace; need > free-memoryMargin {
				return kernels.Failf(ep.LaunchFailed, "beside: %s needs %s on GPU %d, where %s are free; give smaller sizes or fewer groups",
					p.of, gib(need), g.index, gib(max(free-memoryMargin, 0)))
			}
			for _, part := range []struct {
				at    *cu.DevicePtr
				bytes int64
			}{{&m.x, x}, {&m.w, w}, {&m.out, out}, {&m.workspace, workspace}} {
				if part.bytes == 0 {
					continue
				}
				if *part.at, err = cu.MemAlloc(part.bytes); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("rank %d: %w", i, err)
		}
	}
	return nil
}

func (p *products) fill() error {
	x, w, _, _ := p.sizes()
	m, err := p.ranks.node.load(sources.Unit{Source: sources.BesideSource})
	if err != nil {
		return err
	}
	fs, err := m.function("beside_fill")
	if err != nil {
		return err
	}
	code := newCSteps(len(p.ranks.local), 2)
	defer code.free()
	for i := range p.ranks.local {
		steps := &writer{ranks: p.ranks, rank: i, out: code.steps[i]}
		for n, part := range []struct {
			at    cu.DevicePtr
			bytes int64
		}{{p.memory[i].x, x}, {p.memory[i].w, max(w, 4)}} {
			a := p.ranks.args(i)
			at := part.at
			if at == 0 {
				at, part.bytes = p.memory[i].x, 4
			}
			point(&a.out, at)
			a.max_rows, a.round, a.stamp = C.int64_t(part.bytes/4), C.uint32_t(2*i+n), C.int32_t(declare.Bit(p.of.DType == ep.FP8))
			steps.kernel(fs, 2*p.ranks.local[i].gpu.sms, declare.MaxThreads, a)
		}
		e := &code.ranks[i]
		e.context, e.stream, e.fault = handle(p.ranks.local[i].gpu.context), handle(p.ranks.local[i].stream), p.ranks.local[i].fault
	}
	return runOnce(code)
}

// plan replaces all plans by a single plan, for launches of `batch` experts on all SMs.
func (p *products) plan(batch int) error {
	p.unplan()
	p.batch, p.own, p.chosen = batch, 0, false
	return p.planFor(0)
}

// planFor adds a plan for `sms` SMs, 0 for all.
func (p *products) planFor(sms int) error {
	if p.of.Kind == ep.Copy || p.plans[sms] != nil {
		return nil
	}
	if p.plans == nil {
		p.plans = map[int][]*C.EpProduct{}
	}
	var plans []*C.EpProduct
	for i, m := range p.memory {
		made, err := p.planOn(p.ranks.local[i].gpu, m, sms)
		if err != nil {
			p.free(plans)
			return fmt.Errorf("rank %d: %w", i, err)
		}
		plans = append(plans, made)
	}
	p.plans[sms] = plans
	err := p.warm(sms)
	if err != nil {
		delete(p.plans, sms)
		p.free(plans)
	}
	return err
}

// warm runs one pass, so that the library loads its kernels before the first call. During a call, kernels that wait for
// other ranks could delay the loading.
func (p *products) warm(sms int) error {
	for i, r := range p.ranks.local {
		code := newCSteps(1, p.launchesPerPass())
		w := &writer{ranks: p.ranks, rank: i, out: code.steps[0]}
		for n := range p.launchesPerPass() {
			p.write(w, n, sms)
		}
		code.ranks[0].context, code.ranks[0].stream, code.ranks[0].fault = handle(r.gpu.context), handle(r.stream), r.fault
		err := runOnce(code)
		code.free()
		if err != nil {
			return fmt.Errorf("rank %d: the first products: %w", i, err)
		}
	}
	return nil
}

func (p *products) planOn(g *gpu, m productMemory, sms int) (made *C.EpProduct, err error) {
	spec := C.EpProductSpec{
		m: C.int32_t(p.of.M), n: C.int32_t(p.of.N), k: C.int32_t(p.of.K), fp8: C.int32_t(declare.Bit(p.of.DType == ep.FP8)),
		groups: C.int32_t(p.of.Groups), batch: C.int32_t(p.batch), sms: C.int32_t(sms),
		x: C.uint64_t(m.x), w: C.uint64_t(m.w), out: C.uint64_t(m.out), workspace: C.uint64_t(m.workspace), workspace_bytes: workspaceBytes,
	}
	err = g.do(func() error {
		var text [C.EP_PRODUCT_TEXT]C.char
		if C.ep_product_make(&spec, &made, &text[0]) != 0 {
			return kernels.Failf(ep.LaunchFailed, "beside: %s", C.GoString(&text[0]))
		}
		return nil
	})
	return made, err
}

func (p *products) unplan() {
	for _, plans := range p.plans {
		p.free(plans)
	}
	p.plans = nil
}

func (p *products) free(plans []*C.EpProduct) {
	for i, made := range plans {
		_ = p.ranks.local[i].gpu.do(func() error { C.ep_product_free(made); return nil })
	}
}

// launchesPerPass returns the number of launches in one pass.
func (p *products) launchesPerPass() int {
	if p.of.Kind == ep.Copy {
		return copyParts
	}
	return (p.of.Groups + p.batch - 1) / p.batch
}

// isStep reports whether p stands for decode steps. p may be nil.
func (p *products) isStep() bool { return p != nil && p.attention != nil }

// write adds launch n to the steps of a rank. `left` is the number of SMs that the calls leave, 0 for all.
func (p *products) write(w *writer, n, left int) {
	m := p.memory[w.rank]
	if p.of.Kind == ep.Copy {
		s, at := w.next(C.EP_STEP_COPY), C.uint64_t(n%copyParts*copyBytes)
		s.source, s.target, s.words = C.uint64_t(m.x)+at, C.uint64_t(m.out)+at, copyBytes/4
		return
	}
	s, made := w.next(C.EP_STEP_PRODUCT), p.plans[planBeside(p.own, left)]
	s.object, s.words = C.uint64_t(uintptr(unsafe.Pointer(made[w.rank]))), C.uint64_t(n)
}

// close frees plans and memory. p may be nil.
func (p *products) close() {
	if p == nil {
		return
	}
	p.attention.close()
	p.unplan()
	for i, m := range p.memory {
		_ = p.ranks.local[i].gpu.do(func() error {
			var err error
			for _, at := range []cu.DevicePtr{m.x, m.w, m.out, m.workspace} {
				if at != 0 {
					err = cmp.Or(err, cu.MemFree(at))
				}
			}
			return err
		})
	}
	p.memory = nil
}

// amount describes the product beside one call.
func (p *products) amount() string {
	switch {
	case p.of.Kind == ep.Copy:
		return fmt.Sprintf("%d copies of %d MiB", p.share, copyBytes>>20)
	case p.isStep():
		return fmt.Sprintf("a layer of two micro-batches, each with attention as %s%s and experts as %s%s",
			p.attention.of, p.attention.ownPlan(), p.of, p.ownPlan())
	}
	kernelsEach := int(C.ep_product_kernels(p.plans[p.own][0]))
	return fmt.Sprintf("%d launches, each with %d of the %d products %s, in %d kernels%s", p.share, p.batch, p.of.Groups, p.of, kernelsEach, p.ownPlan())
}

func (p *products) ownPlan() string {
	if p.own == 0 {
		return ""
	}
	return fmt.Sprintf(" (planned for %d SMs)", p.own)
}
