package pack

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/epbench/epbench/tune/ep"
)

// manifest is the pack's JSON description.
type manifest struct {
	Problem  ep.Problem `json:"problem"` // without Op, Dispatch and Tokens
	DTypes   []ep.DType `json:"dtypes"`
	Reduced  bool       `json:"reduced"`
	MaxSMs   int        `json:"max_sms,omitempty"`
	Machine  ep.Machine `json:"machine"`
	TableIDs []string   `json:"tables"`
	Notes    []string   `json:"notes,omitempty"`
	Network  *Network   `json:"network,omitempty"` // nil on one host
	Lookups  []answers  `json:"lookups"`
}

// Network is the network library that a program on several nodes loads before the first call.
type Network struct {
	Library string   `json:"library"` // nvshmem
	Version string   `json:"version"`
	Modules []string `json:"modules"` // modules to announce to NVSHMEM
	// HeapBytes is each rank's symmetric memory for one call in flight.
	HeapBytes int64 `json:"heap_bytes"`
}

// answers is the form that a Lookup has in the manifest.
type answers struct {
	DType   ep.DType `json:"dtype"`
	Reduced bool     `json:"reduced"`
	Purpose ep.Op    `json:"purpose"`
	Class   ep.Class `json:"routing"`
	Runs    []Answer `json:"runs"`
}

// Answer names the configs for the token counts from Lo to Hi.
type Answer struct {
	Lo        int      `json:"lo"`
	Hi        int      `json:"hi"`
	Dispatch  string   `json:"dispatch"` // ep.Config.Key
	Combine   string   `json:"combine"`
	Elsewhere string   `json:"elsewhere,omitempty"` // pair for outputs outside the symmetric heap
	Uncovered bool     `json:"uncovered,omitempty"` // no table row; the configs are defaults
	Certified bool     `json:"certified"`           // the rows were measured with this build, on this kind of machine
	Text      string   `json:"text"`
	Medians   []Median `json:"rows,omitempty"`
}

// Median is the evidence of one row.
type Median struct {
	Op     ep.Op   `json:"op"`
	Median float64 `json:"median"` // seconds of one call
	Gain   float64 `json:"gain"`
	GainLo float64 `json:"gain_low"`
	GainHi float64 `json:"gain_high"`
	Rounds int     `json:"rounds"`
	Date   string  `json:"date"`
}

func newManifest(b *builder, lookups []Lookup, notes []string) manifest {
	r := b.request
	m := manifest{
		Problem: r.resolver(r.DTypes[0], false, ep.AllRoutings).problem, DTypes: r.DTypes, Reduced: r.Reduced,
		MaxSMs: r.MaxSMs, Machine: r.Machine, Notes: notes,
	}
	if r.Tables != nil {
		for _, s := range r.Tables.Sources() {
			m.TableIDs = append(m.TableIDs, s.Table.ID)
		}
	}
	slices.Sort(m.TableIDs)
	m.Network = b.network()
	for _, l := range lookups {
		a := answers{DType: l.DType, Reduced: l.Reduced, Purpose: l.Purpose, Class: l.Class}
		for _, run := range l.Runs {
			a.Runs = append(a.Runs, run.answer())
		}
		m.Lookups = append(m.Lookups, a)
	}
	return m
}

func (r Run) answer() Answer {
	a := Answer{
		Lo: r.Lo, Hi: r.Hi, Dispatch: r.Pair.Dispatch.Key(), Combine: r.Pair.Combine.Key(), Text: r.Text,
		Uncovered: len(r.Rows) == 0, Certified: r.Certified,
	}
	if e := r.Elsewhere.Dispatch.Key(); e != a.Dispatch {
		a.Elsewhere = e
	}
	for _, row := range r.Rows {
		e := row.Evidence
		a.Medians = append(a.Medians, Median{row.Key.Op, e.Median, e.Gain, e.GainLow, e.GainHigh, e.Rounds, e.Date.Format("2006-01-02")})
	}
	return a
}

func (b *builder) network() *Network {
	if !b.severalNodes() {
		return nil
	}
	v := b.hosts.Network
	n := &Network{Library: "nvshmem", Version: fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2])}
	for i, u := range b.units {
		if b.modules[i].Flags&flagNetwork != 0 {
			n.Modules = append(n.Modules, u.Key())
		}
	}
	n.HeapBytes = b.sizes().HeapBytes(1)
	return n
}

func (m manifest) encode() ([]byte, error) {
	text, err := json.MarshalIndent(m, "", " ")
	return append(text, '\n'), err
}
