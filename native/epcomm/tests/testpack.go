//go:build ignore

// Testpack writes packs of small shapes for the C tests on the emulated driver.
//
//	go run native/epcomm/tests/testpack.go -compile bin/epbench-compile -ranks 2 -o FILE
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/epbench/epbench/kernels/cuda/pack"
	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

func main() {
	compile := flag.String("compile", "bin/epbench-compile", "the program epbench-compile")
	ranks := flag.Int("ranks", 2, "number of ranks")
	nodes := flag.Int("nodes", 1, "number of hosts; a pack for several hosts holds only fp8")
	out := flag.String("o", "", "file to write")
	tokens := flag.Int("max-tokens", 24, "largest number of tokens of a rank")
	layout := flag.String("layout", "expert", "layout of received rows; without -every, only packs of layout expert hold other configs than defaults")
	every := flag.Bool("every", false, "use every kernel of the layout: calls of 2i-1 and 2i tokens take the i-th pair of everyPair")
	survivors := flag.Bool("survivors", false, "use kernels that can continue without a lost rank")
	flag.Parse()
	l, err := ep.ParseLayout(*layout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testpack:", err)
		os.Exit(2)
	}
	r := request(*ranks, *tokens)
	if *nodes > 1 {
		r = overNodes(*ranks, *nodes, *tokens)
	}
	r.Problem.Layout, r.Survivors = l, *survivors
	if *every {
		r = everyPairOf(r, *layout)
	}
	p, err := pack.Build(r, func(arch string, units []sources.Unit) (pack.Compiled, error) {
		return pack.CompileWith(*compile, arch, units)
	})
	if err == nil {
		err = os.WriteFile(*out, p.Data, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testpack:", err)
		os.Exit(1)
	}
	fmt.Printf("%s: %d bytes\n", *out, len(p.Data))
}

func request(ranks, tokens int) pack.Request {
	m := ep.Machine{Backend: "cuda", PCIID: "emulated", Arch: "sm_90", SMs: 4, GPUs: ranks}
	shape := ep.Problem{Ranks: ranks, Nodes: 1, Hidden: 256, Experts: 4 * ranks, TopK: 3, MaxTokens: tokens, Mode: ep.Graph, Combine: ep.BF16}
	t := &table.Table{Header: table.Header{Machine: m, ABI: "test"}}
	for _, d := range []ep.DType{ep.BF16, ep.FP8} {
		p := shape
		p.Dispatch = d
		t.Rows = append(t.Rows,
			row(p, ep.Dispatch, 1, 2, "dispatch_ll:early=1,mode=fused,part=512,pause=0,pdl=1,receivers=0,recv_sms=0,send=512,sms=3,threads=64"),
			row(p, ep.Dispatch, 3, 4, "dispatch_ll:early=0,mode=split,part=512,pause=0,pdl=0,receivers=0,recv_sms=2,send=512,sms=3,threads=64"),
			row(p, ep.Dispatch, 5, 6, "dispatch_ll:early=0,mode=fused,part=512,pause=0,pdl=0,receivers=1,recv_sms=0,send=512,sms=4,threads=64"),
			row(p, ep.Dispatch, 7, 8, "dispatch_ll_ids:part=512,pdl=0,send=512,sms=4,threads=64"),
			row(p, ep.Dispatch, 9, 16, "dispatch_final:algo=dedup,scales=row,sms=4,threads=64,wait_sms=2"),
			row(p, ep.Combine, 1, 3, "combine_ll:algo=direct,mode=fused,pdl=1,recv_sms=0,sms=2,threads=64"),
			row(p, ep.Combine, 4, 6, "combine_ll:algo=direct,mode=split,pdl=1,recv_sms=3,sms=2,threads=64"),
			row(p, ep.Combine, 7, 16, "combine_final:algo=direct,in_flight=0,sms=3,threads=64,wait_sms=1"))
	}
	return pack.Request{
		Problem: shape, DTypes: []ep.DType{ep.BF16, ep.FP8}, Machine: m,
		Tables: table.Overlay(table.Source{Name: "test", Table: t}), ABI: "test",
	}
}

// everyPair lists pairs of a dispatch and a combine for each layout.
var everyPair = map[string][][2]string{
	"expert": {
		{"dispatch_ll:early=1,mode=fused,part=512,pause=0,pdl=1,receivers=0,recv_sms=0,send=512,sms=3,threads=64", "combine_ll:algo=direct,mode=fused,pdl=1,recv_sms=0,sms=2,threads=64"},
		{"dispatch_ll:early=0,mode=split,part=512,pause=0,pdl=0,receivers=0,recv_sms=2,send=512,sms=3,threads=64", "combine_ll:algo=dedup,mode=split,pdl=1,recv_sms=3,sms=2,threads=64"},
		{"dispatch_ll_ids:part=512,pdl=0,send=512,sms=4,threads=64", "combine_ll_partial:partial=f32,pdl=0,receivers=0,sms=3,threads=64"},
		{"dispatch_final:algo=dedup,scales=row,sms=4,threads=64,wait_sms=2", "combine_final:algo=dedup,in_flight=0,sms=3,threads=64,wait_sms=1"},
		{"dispatch_final_home:scales=row,sms=4,team=1,threads=64,wait_sms=0", "combine_final_partial:partial=f32,sms=3,threads=64,wait_sms=1"},
		{"dispatch_final:algo=direct,scales=row,sms=4,threads=64,wait_sms=0", "combine_final_polled:partial=bf16,pdl=0,receivers=0,sms=3,threads=64"},
		{"dispatch:algo=direct,chunk_bytes=0,copy=vector,count_sms=1,in_flight=4,mode=fused,pdl=1,sms=4,threads=64,tile_tokens=16",
			"combine:algo=direct,chunk_bytes=512,copy=vector,epilogue=none,in_flight=4,mode=fused,pdl=1,rotate=0,rows=1,sms=4,threads=64,wait_sms=1"},
		{"dispatch:algo=dedup,chunk_bytes=0,copy=vector,count_sms=1,in_flight=4,mode=split,pdl=0,sms=4,threads=64,tile_tokens=16",
			"combine:algo=dedup,chunk_bytes=512,copy=vector,epilogue=none,in_flight=4,mode=split,pdl=0,rotate=1,rows=1,sms=4,threads=64,wait_sms=1"},
		{"dispatch_final:algo=dedup,scales=tile,sms=4,threads=64,wait_sms=2", "combine_final:algo=direct,in_flight=0,sms=3,threads=64,wait_sms=1"},
	},
	"masked": {
		{"dispatch_masked:input=bf16,mode=fused,pdl=1,recv_sms=0,sms=4,threads=64,unit=512,wait_sms=0", "combine_masked:algo=direct,mode=fused,pdl=0,recv_sms=0,sms=4,threads=64,unit=512,wait_sms=0"},
		{"dispatch_masked:input=bf16,mode=split,pdl=0,recv_sms=3,sms=2,threads=64,unit=512,wait_sms=0", "combine_masked:algo=dedup,mode=split,pdl=0,recv_sms=3,sms=2,threads=64,unit=512,wait_sms=0"},
		{"dispatch_masked_ids:part=512,pdl=0,send=512,sms=4,threads=64", "combine_masked:algo=dedup,mode=fused,pdl=1,recv_sms=0,sms=4,threads=64,unit=512,wait_sms=2"},
	},
	"expert:128": {
		{"dispatch_ll:early=1,mode=fused,part=512,pause=0,pdl=1,receivers=0,recv_sms=0,send=512,sms=3,threads=64", "combine_ll:algo=direct,mode=fused,pdl=1,recv_sms=0,sms=2,threads=64"},
		{"dispatch_ll_ids:part=512,pdl=0,send=512,sms=4,threads=64", "combine_ll_partial:partial=f32,pdl=0,receivers=0,sms=3,threads=64"},
		{"dispatch_final_home:scales=row,sms=4,team=1,threads=64,wait_sms=0", "combine_final_polled:partial=bf16,pdl=0,receivers=0,sms=3,threads=64"},
		{"dispatch:algo=direct,chunk_bytes=0,copy=vector,count_sms=1,in_flight=4,mode=fused,pdl=1,sms=4,threads=64,tile_tokens=16",
			"combine:algo=direct,chunk_bytes=512,copy=vector,epilogue=none,in_flight=4,mode=fused,pdl=1,rotate=0,rows=1,sms=4,threads=64,wait_sms=1"},
	},
	"rank": {
		{"dispatch_rank:input=bf16,pdl=1,sms=4,threads=64,unit=512,wait_sms=0", "combine_rank:pdl=1,sms=4,threads=64,unit=512,wait_sms=0"},
		{"dispatch_rank_home:input=bf16,pdl=0,sms=4,threads=64,unit=512,wait_sms=2", "combine_rank:pdl=0,sms=4,threads=64,unit=512,wait_sms=2"},
	},
}

// everyPairOf replaces the rows of a request by the rows of everyPair.
func everyPairOf(r pack.Request, layout string) pack.Request {
	if layout == "rank:packed" {
		layout = "rank"
	}
	t := &table.Table{Header: table.Header{Machine: r.Machine, ABI: "test"}}
	for _, d := range r.DTypes {
		p := r.Problem
		p.Dispatch = d
		for i, pair := range everyPair[layout] {
			for op, config := range map[ep.Op]string{ep.Dispatch: pair[0], ep.Combine: pair[1]} {
				at := row(p, op, 2*i+1, 2*i+2, config)
				if strings.Contains(config, "algo=dedup") && op == ep.Combine || strings.Contains(config, "partial=bf16") {
					at.Key.Precision = ep.Reduced
				}
				t.Rows = append(t.Rows, at)
			}
		}
	}
	r.Reduced = true
	r.Tables = table.Overlay(table.Source{Name: "test", Table: t})
	return r
}

// overNodes returns a request for ranks on several nodes.
func overNodes(ranks, nodes, tokens int) pack.Request {
	m := ep.Machine{Backend: "cuda-hosts", PCIID: "emulated", Arch: "sm_90", SMs: 4, GPUs: ranks}
	p := ep.Problem{Ranks: ranks, Nodes: nodes, Hidden: 640, Experts: 4 * ranks, TopK: 3, MaxTokens: tokens, Mode: ep.Graph, Combine: ep.BF16, Dispatch: ep.FP8}
	dispatch := func(route, mode string, sms int) string {
		return fmt.Sprintf("dispatch_hosts:chunk_bytes=0,count_sms=1,in_flight=4,mode=%s,pdl=1,relay_chunk=1,relay_warps=2,route=%s,sms=%d,threads=64,tile_tokens=16", mode, route, sms)
	}
	combine := func(route, mode string, sms int) string {
		return fmt.Sprintf("combine_hosts:chunk_bytes=512,in_flight=4,mode=%s,partial=f32,pdl=0,rotate=1,route=%s,sms=%d,threads=64,wait_sms=1", mode, route, sms)
	}
	t := &table.Table{Header: table.Header{Machine: m, ABI: "test"}, Rows: []table.Row{
		row(p, ep.Dispatch, 1, 1, "dispatch_ll_hosts:mode=fused,part=512,pdl=1,route=direct,sms=3,threads=64"),
		row(p, ep.Dispatch, 2, 2, "dispatch_ll_hosts:mode=fused,part=512,pdl=1,route=rail,sms=4,threads=64"),
		row(p, ep.Dispatch, 3, 3, "dispatch_ll_hosts:mode=split,part=512,pdl=0,route=direct,sms=4,threads=64"),
		row(p, ep.Dispatch, 4, 4, "dispatch_ll_hosts:mode=split,part=512,pdl=0,route=rail,sms=3,threads=64"),
		row(p, ep.Dispatch, 5, 6, dispatch("rail", "split", 3)),
		row(p, ep.Dispatch, 7, 8, dispatch("direct", "fused", 4)),
		row(p, ep.Dispatch, 9, 10, dispatch("direct", "split", 4)),
		row(p, ep.Dispatch, 11, tokens, dispatch("rail", "fused", 4)),
		row(p, ep.Combine, 1, 2, "combine_ll_hosts:mode=split,pdl=1,sms=3,threads=64"),
		row(p, ep.Combine, 3, 4, "combine_ll_hosts:mode=fused,pdl=0,sms=2,threads=64"),
		row(p, ep.Combine, 5, 7, combine("direct", "fused", 3)),
		row(p, ep.Combine, 8, tokens, combine("rail", "split", 4)),
	}}
	for _, r := range t.Rows { // the default configs have too many threads for an emulated GPU
		for _, class := range ep.Classes() {
			q := p
			q.Op = r.Key.Op
			if r.Key = table.KeyOf(q, class); class != ep.Even {
				t.Rows = append(t.Rows, r)
			}
		}
	}
	return pack.Request{
		Problem: p, DTypes: []ep.DType{ep.FP8}, Machine: m, Tables: table.Overlay(table.Source{Name: "test", Table: t}), ABI: "test",
	}
}

func row(p ep.Problem, op ep.Op, lo, hi int, config string) table.Row {
	c, err := ep.ParseConfig(config)
	if err != nil {
		panic(err)
	}
	p.Op = op
	return table.Row{Key: table.KeyOf(p, ep.Even), Lo: lo, Hi: hi, Config: c, Evidence: table.Evidence{Median: 1e-6 * float64(hi), Tokens: []int{hi}}}
}
