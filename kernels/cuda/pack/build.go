// Package pack makes the file from which the C library epcomm runs kernels: tuned configs, compiled kernels and memory
// layout. A pack is for one problem shape and one GPU architecture.
//
// For each dtype, precision, routing class and purpose (the op that should be fast), a pack lists ranges of token
// counts (runs). A run names a dispatch and a combine.
package pack

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

// Compile returns the binaries of units, in the order of the units.
type Compile func(arch string, units []sources.Unit) (Compiled, error)

// Build makes a pack. The same request and compiler give the same bytes.
func Build(r Request, compile Compile) (*Pack, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	lookups, notes, err := r.lookups()
	if err != nil {
		return nil, err
	}
	b := newBuilder(r)
	if err := b.addAll(lookups); err != nil {
		return nil, err
	}
	more, err := uncoveredNotes(r, lookups, b)
	if err != nil {
		return nil, err
	}
	if err := b.compileAll(compile); err != nil {
		return nil, err
	}
	notes = append(notes, more...)
	b.manifest = newManifest(b, lookups, notes)
	data, err := b.encode()
	if err != nil {
		return nil, err
	}
	return Read(data)
}

func (b *builder) sizes() *Pack {
	p := &Pack{head: b.head, dtypes: b.dtypes, states: b.states, regions: b.regions}
	p.DTypes, p.Problem = b.request.DTypes, b.request.resolver(b.request.DTypes[0], false, ep.AllRoutings).problem
	return p
}

func (r Request) check() error {
	if len(r.DTypes) == 0 {
		return fmt.Errorf("dtype: none given; name one or more of %v", ep.DTypes())
	}
	for _, d := range r.DTypes {
		p := r.resolver(d, false, ep.AllRoutings).problem
		if err := p.Validate(); err != nil {
			return err
		}
		declared := declare.KernelsOver(p.Nodes, r.Machine)
		all := kernels.For(declared, p)
		if len(all) == 0 {
			return kernels.NoKernel(declared, p)
		}
		if _, ok := all[0].DefaultConfig(r.Machine, p).Values["input"]; r.Raw && !ok {
			return fmt.Errorf("raw: layout %s takes only bf16 tokens; use layout rank or rank:packed", p.Layout)
		}
	}
	if err := r.checkSurvivors(); err != nil {
		return err
	}
	if r.MaxSMs < 0 || r.MaxSMs == 1 {
		return fmt.Errorf("max-sms: %d; use at least 2, the SMs that a call needs, or 0 for no bound", r.MaxSMs)
	}
	_, err := sources.ArchName(r.Machine)
	return err
}

func (r Request) checkSurvivors() error {
	p := r.Problem
	served := []ep.Layout{ep.LayoutMasked, ep.LayoutRank, ep.LayoutRankPacked}
	if !r.Survivors || p.Nodes <= 1 && slices.Contains(served, p.Layout) {
		return nil
	}
	return fmt.Errorf("survivors: the kernels of layout %s on %d nodes wait for every rank; use --layout masked, rank or rank:packed on one node, "+
		"or leave --survivors out and start all ranks again after a loss", p.Layout, max(p.Nodes, 1))
}

type builder struct {
	request  Request
	head     header
	hosts    hostsHeader // only for several nodes
	dtypes   []dtypeRecord
	states   []stateRecord
	regions  []regionRecord
	modules  []moduleRecord
	launches []launchRecord
	configs  []configRecord
	plans    []planRecord
	lookups  []lookupRecord
	runs     []runRecord
	strings  bytes.Buffer
	cubins   bytes.Buffer
	units    []sources.Unit
	manifest manifest
	place    map[string]uint32
	groups   map[string]int
}

func newBuilder(r Request) *builder {
	b := &builder{request: r, place: map[string]uint32{}, groups: map[string]int{}}
	p := r.resolver(r.DTypes[0], false, ep.AllRoutings).problem
	b.hosts.Nodes = uint32(p.Nodes)
	b.head = header{
		Version: Version, ArgsVersion: sources.ArgsVersion(),
		Ranks: uint32(p.Ranks), Hidden: uint32(p.Hidden), Experts: uint32(p.Experts), TopK: uint32(p.TopK),
		MaxTokens: uint32(p.MaxTokens), Groups: uint32(dtype.Groups(p)), MaxSMs: uint32(r.MaxSMs),
		Layout: uint32(slices.Index(ep.Layouts(), p.Layout)),
	}
	copy(b.head.Magic[:], Magic)
	arch, _ := sources.ArchName(r.Machine) // check has reported the error
	copy(b.head.Arch[:], arch)
	var n uint32
	fmt.Sscanf(arch, "sm_%d", &n)
	b.head.Major, b.head.Minor = n/10, n%10
	for flag, set := range map[uint32]bool{
		flagRaw: r.Raw, flagShared: p.SharedExpert, flagSkip: p.SkipA2A, flagReduced: r.Reduced, flagExact: arch[len(arch)-1] == 'a',
		flagSurvivors: r.Survivors,
	} {
		if set {
			b.head.Flags |= flag
		}
	}
	return b
}

// once returns the index of a key's record. For a new key `add` makes the record.
func (b *builder) once(key string, add func() (at int)) uint32 {
	if _, ok := b.place[key]; !ok {
		b.place[key] = uint32(add())
	}
	return b.place[key]
}

func (b *builder) text(s string) uint32 {
	return b.once("text "+s, func() int {
		n := b.strings.Len()
		b.strings.WriteString(s + "\x00")
		return n
	})
}

func (b *builder) addAll(lookups []Lookup) error {
	align, calls := declare.SupportUnits(int(b.hosts.Nodes))
	b.head.AlignModule, b.head.CallsModule = b.module(align), b.module(calls)
	b.addDTypes()
	for _, l := range lookups {
		if err := b.lookup(l); err != nil {
			return err
		}
	}
	abi := string(declare.ABIOver(int(b.hosts.Nodes)))
	b.head.Kernels, b.head.ABI = b.text(abi), sha256.Sum256([]byte(abi))
	return nil
}

func (b *builder) addDTypes() {
	for _, d := range b.request.DTypes {
		b.dtypes = append(b.dtypes, dtypeOf(b.request.resolver(d, false, ep.AllRoutings).problem))
	}
}

func dtypeOf(p ep.Problem) dtypeRecord {
	l := dtype.Of(p.Dispatch, p.Hidden)
	rows := dtype.MaxRows(p)
	return dtypeRecord{
		DType: uint32(slices.Index(ep.DTypes(), p.Dispatch) + 1), RowPad: uint32(dtype.RowPad(p)),
		MaxRows: uint64(rows), RowBytes: uint64(l.Payload), OutBytes: uint64(rows) * uint64(l.Payload),
		ScaleBytes: uint64(dtype.OutputScaleBytes(l, dtype.Groups(p), rows)),
		Scales:     uint32(l.Scales), ScaleSize: uint32(l.ScaleBytes),
	}
}

func (b *builder) lookup(l Lookup) error {
	rec := lookupRecord{
		DType: uint32(slices.Index(b.request.DTypes, l.DType)), Reduced: bit(l.Reduced),
		Purpose: uint32(slices.Index(purposeNames, l.Purpose)), Class: uint32(l.Class.Index()),
		FirstRun: uint32(len(b.runs)),
	}
	v := b.request.resolver(l.DType, l.Reduced, l.Class)
	for _, run := range l.Runs {
		if err := b.run(v, run); err != nil {
			return err
		}
	}
	rec.Runs = uint32(len(b.runs)) - rec.FirstRun
	b.lookups = append(b.lookups, rec)
	return nil
}

func bit(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// purposeNames lists the purposes in the order of their numbers.
var purposeNames = []ep.Op{ep.Pair, ep.Dispatch, ep.Combine, Halves}

func (b *builder) plan(v *resolver, p Pair, tokens int) (uint32, error) {
	if cast := p.Dispatch.Values["input"] == "fp8"; cast != v.raw() {
		of := map[bool]string{true: "FP8", false: "BF16"}
		return 0, fmt.Errorf("input: %s takes tokens in %s, but the callers of this pack have them in %s; see --raw", p.Dispatch.Key(), of[cast], of[v.raw()])
	}
	combine, err := v.describe(ep.Combine, p.Combine, tokens)
	if err != nil {
		return 0, err
	}
	dispatch, err := v.describe(ep.Dispatch, p.Dispatch, tokens)
	if err != nil {
		return 0, err
	}
	if dispatch = dispatch.InMemoryOf(combine); dispatch.State != combine.State {
		return 0, fmt.Errorf("%s reads memory that %s does not write", p.Combine.Key(), p.Dispatch.Key())
	}
	d, c := b.config(v, dispatch), b.config(v, combine)
	return b.once(fmt.Sprint("plan ", d, c), func() int {
		b.plans = append(b.plans, planRecord{d, c})
		return len(b.plans) - 1
	}), nil
}

func (v *resolver) describe(op ep.Op, c ep.Config, tokens int) (declare.CallSpec, error) {
	return declare.DescribeCall(v.machine(), v.at(op, tokens), c)
}

func (b *builder) config(v *resolver, s declare.CallSpec) uint32 {
	index := uint32(slices.Index(b.request.DTypes, v.problem.Dispatch))
	return b.once(fmt.Sprint("config ", index, " ", s.State, " ", s.Config.Key(), " ", s.Launches), func() int {
		rec := configRecord{
			Op: uint32(slices.Index(ep.RowOps(), s.Op)), DType: index, State: b.state(s, index),
			FirstLaunch: uint32(len(b.launches)), Launches: uint32(len(s.Launches)), Key: b.text(s.Config.Key()),
		}
		if s.Places {
			rec.Flags |= flagPlaces
		}
		module := b.module(s.Unit)
		for _, l := range s.Launches {
			b.launches = append(b.launches, b.launch(module, l))
		}
		b.configs = append(b.configs, rec)
		return len(b.configs) - 1
	})
}

func (b *builder) launch(module uint32, l declare.Launch) launchRecord {
	rec := launchRecord{
		Module: module, Entry: b.text(l.Entry), Grid: uint32(l.Grid), Block: uint32(l.Block),
		Shared: uint32(l.Shared), Words: l.Words(),
	}
	if l.PDL {
		rec.Flags |= flagPDL
	}
	b.head.LargestGrid = max(b.head.LargestGrid, rec.Grid)
	return rec
}

func (b *builder) state(s declare.CallSpec, index uint32) uint32 {
	return b.once(fmt.Sprint("state ", index, s.State), func() int {
		b.states = append(b.states, stateRecord{
			DType: index, Name: b.text(s.State), FirstRegion: uint32(len(b.regions)),
			Regions: uint32(len(s.Regions)), Counters: uint32(s.Counters), Numbers: b.numbers(s),
		})
		for _, r := range s.Regions {
			b.regions = append(b.regions, regionRecord{uint64(r.Bytes), r.Fill, uint8(bit(r.Halves)), b.area(s, r), b.text(r.Name)})
		}
		return len(b.states) - 1
	})
}

func (b *builder) module(u sources.Unit) uint32 {
	if b.request.Survivors {
		u = u.Surviving()
	}
	return b.once("unit "+u.Key(), func() int {
		b.units = append(b.units, u)
		b.modules = append(b.modules, moduleRecord{Name: b.text(u.Key()), Flags: flagNetwork * bit(u.CrossesHosts())})
		return len(b.units) - 1
	})
}

func (b *builder) compileAll(compile Compile) error {
	arch, err := sources.ArchName(b.request.Machine)
	if err != nil {
		return err
	}
	made, err := compile(arch, b.units)
	if err != nil {
		return err
	}
	if b.severalNodes() {
		if err := b.linkedTo(made.Network); err != nil {
			return err
		}
	}
	for i, c := range made.Cubins {
		pad(&b.cubins)
		b.modules[i].Offset, b.modules[i].Bytes = uint64(b.cubins.Len()), uint64(len(c))
		b.cubins.Write(c)
	}
	return nil
}

func (b *builder) severalNodes() bool { return b.hosts.Nodes > 1 }

func (b *builder) linkedTo(version string) error {
	v := &b.hosts.Network
	if n, err := fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2]); n != 3 {
		return fmt.Errorf("NVSHMEM: %q is not a version such as 3.8.0 (%v); run make cuda-deps NVSHMEM=1 again", version, err)
	}
	return nil
}

func pad(b *bytes.Buffer) { b.Write(make([]byte, (16-b.Len()%16)%16)) }

func (b *builder) encode() ([]byte, error) {
	text, err := b.manifest.encode()
	if err != nil {
		return nil, err
	}
	b.head.HeaderBytes = uint32(binary.Size(b.head))
	if b.severalNodes() {
		b.head.HeaderBytes += uint32(binary.Size(b.hosts))
	}
	b.head.Evidence = sha256.Sum256([]byte(fmt.Sprintf("%q", b.manifest.TableIDs)))
	parts := []any{b.dtypes, b.states, b.regions, b.modules, b.launches, b.configs, b.plans, b.lookups, b.runs,
		b.strings.Bytes(), text, b.cubins.Bytes()}
	var body bytes.Buffer
	body.Write(make([]byte, b.head.HeaderBytes))
	for i, part := range parts {
		pad(&body)
		before := body.Len()
		if err := binary.Write(&body, binary.LittleEndian, part); err != nil {
			return nil, err
		}
		stride := recordBytes[i]
		b.head.Sections[i] = section{uint64(before), uint32((body.Len() - before) / stride), uint32(stride)}
	}
	b.head.FileBytes = uint64(body.Len())
	data := body.Bytes()
	at, err := binary.Encode(data, binary.LittleEndian, b.head)
	if err == nil && b.severalNodes() {
		_, err = binary.Encode(data[at:], binary.LittleEndian, b.hosts)
	}
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data[digestFrom:])
	copy(data[digestFrom-len(sum):], sum[:])
	return data, nil
}

var recordBytes = [sections]int{
	binary.Size(dtypeRecord{}), binary.Size(stateRecord{}), binary.Size(regionRecord{}), binary.Size(moduleRecord{}),
	binary.Size(launchRecord{}), binary.Size(configRecord{}), binary.Size(planRecord{}), binary.Size(lookupRecord{}),
	binary.Size(runRecord{}), 1, 1, 1,
}
