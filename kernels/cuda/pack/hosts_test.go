package pack

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

var twoNodes = ep.Machine{Backend: "cuda-hosts", PCIID: "10de:2335", Arch: "sm_90", SMs: 132, GPUs: 16, Link: "nv18+8x400G"}

const (
	dispatchHosts = "dispatch_hosts:arrival=count,chunk_bytes=0,count_sms=2,in_flight=4,mode=fused,part=512,pdl=1,relay_chunk=1,relay_warps=4,route=rail,sms=64,threads=256,tile_tokens=32"
	combineHosts  = "combine_hosts:arrival=count,chunk_bytes=512,in_flight=4,mode=split,partial=f32,pdl=1,rotate=1,route=rail,sms=64,threads=256,wait_sms=1"
)

func hostRows(nodes int) []table.Row {
	out := []table.Row{row(ep.Dispatch, 1, 64, dispatchHosts, 10), row(ep.Combine, 1, 64, combineHosts, 10)}
	for i := range out {
		out[i].Key.Ranks, out[i].Key.Nodes = 16, nodes
	}
	return out
}

// overNodes makes a pack for 16 ranks on two nodes from rows that were measured on rowNodes nodes.
func overNodes(t *testing.T, rowNodes int) *Pack {
	t.Helper()
	return build(t, func(r *Request) {
		r.Problem.Ranks, r.Problem.Nodes, r.Problem.MaxTokens, r.Machine = 16, 2, 128, twoNodes
		r.Tables = table.Overlay(table.Source{Name: "t", Table: &table.Table{Header: table.Header{Machine: twoNodes, ABI: "abi"}, ID: "table", Rows: hostRows(rowNodes)}})
	})
}

// TestOverNodes: rows of two nodes choose kernels that cross hosts. The manifest names the network library.
func TestOverNodes(t *testing.T) {
	p := overNodes(t, 2)
	a := said(t, p, ep.Pair, ep.Even, 64)
	if a.Dispatch != dispatchHosts || a.Combine != combineHosts || a.Uncovered {
		t.Errorf("64 tokens: %+v", a)
	}
	if far := said(t, p, ep.Pair, ep.Even, 100); !far.Uncovered || !strings.HasPrefix(far.Dispatch, "dispatch_hosts:") {
		t.Errorf("100 tokens: %+v", far)
	}
	if p.hosts.Nodes != 2 || p.hosts.Network != [3]uint32{3, 8, 0} || p.Shape().Nodes != 2 {
		t.Errorf("the header says %+v, the manifest %d nodes", p.hosts, p.Shape().Nodes)
	}
	n := p.Network
	if n == nil || n.Version != "3.8.0" || n.HeapBytes != p.HeapBytes(1) || p.ABI != declare.HostABI() {
		t.Fatalf("network %+v, ABI %s", n, p.ABI)
	}
	var linked []string
	text, err := p.bytes(secStrings)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range p.modules {
		unit, _, _ := strings.Cut(string(text[m.Name:]), "\x00")
		if crosses := strings.HasPrefix(unit, "hosts/"); crosses != (m.Flags&flagNetwork != 0) {
			t.Errorf("%s: flags %d", unit, m.Flags)
		} else if crosses {
			linked = append(linked, unit)
		}
	}
	slices.Sort(linked)
	if named := slices.Sorted(slices.Values(n.Modules)); len(linked) < 3 || !slices.Equal(linked, named) {
		t.Errorf("modules %q, the manifest names %q", linked, named)
	}
	if other := overNodes(t, 1).Answers(ep.BF16, false, ep.Pair, ep.Even)[0]; !other.Uncovered {
		t.Errorf("a row measured on one node answers for two nodes: %+v", other)
	}
}

func forced(dispatch, combine string) *[2]ep.Config {
	d, _ := ep.ParseConfig(dispatch)
	c, _ := ep.ParseConfig(combine)
	return &[2]ep.Config{d, c}
}

// TestOneHostHeader: older libraries read packs for one host.
func TestOneHostHeader(t *testing.T) {
	p := build(t, nil)
	if int(p.head.HeaderBytes) != binary.Size(p.head) || p.Network != nil || p.hosts.Nodes != 0 {
		t.Errorf("%d header bytes, network %+v", p.head.HeaderBytes, p.Network)
	}
	for _, m := range p.modules {
		if m.Flags != 0 {
			t.Errorf("a module of one host has flags %d", m.Flags)
		}
	}
}

// TestNodesRefuse: packs for one host refuse kernels for several hosts. Packs for several hosts refuse kernels for one.
func TestNodesRefuse(t *testing.T) {
	r := Request{Problem: shape, DTypes: []ep.DType{ep.BF16}, Machine: twoNodes}
	r.Problem.Ranks, r.Problem.Nodes = 16, 2
	for name, c := range map[string]struct {
		change func(*Request)
		want   string
	}{
		"a layout":       {func(r *Request) { r.Problem.Layout = ep.LayoutMasked }, "masked"},
		"ranks":          {func(r *Request) { r.Problem.Nodes = 3 }, "16 ranks do not divide by 3 nodes"},
		"a kernel":       {func(r *Request) { r.Only = forced(dispatchFinal, combineFinal) }, `no kernel called "dispatch_final"`},
		"a hosts kernel": {func(r *Request) { r.Problem.Ranks, r.Problem.Nodes, r.Only = 8, 1, forced(dispatchHosts, combineHosts) }, `no kernel called "dispatch_hosts"`},
		"a version":      {func(r *Request) {}, `"3.x" is not a version`},
	} {
		q := r
		c.change(&q)
		_, err := Build(q, func(arch string, units []sources.Unit) (Compiled, error) {
			out, err := compile(arch, units)
			out.Network = "3.x"
			return out, err
		})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
