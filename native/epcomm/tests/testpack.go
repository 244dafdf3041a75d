//go:build ignore

// Writes packs for the C tests on the emulated driver: small shapes whose token
// counts are answered by all three kinds of kernels.
//
//	go run native/epcomm/tests/testpack.go -compile bin/epbench-compile -ranks 2 -o FILE
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/epbench/epbench/kernels/cuda"
	"github.com/epbench/epbench/kernels/cuda/pack"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

func main() {
	compile := flag.String("compile", "bin/epbench-compile", "the program epbench-compile")
	ranks := flag.Int("ranks", 2, "ranks")
	out := flag.String("o", "", "file to write")
	tokens := flag.Int("max-tokens", 24, "capacity")
	layout := flag.String("layout", "expert", "of received rows; packs of others than expert hold defaults")
	flag.Parse()
	r := request(*ranks, *tokens)
	var err error
	if r.Problem.Layout, err = ep.ParseLayout(*layout); err != nil {
		fmt.Fprintln(os.Stderr, "testpack:", err)
		os.Exit(2)
	}
	p, err := pack.Build(r, func(arch string, units []cuda.Unit) (pack.Compiled, error) {
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
			row(p, ep.Dispatch, 1, 2, "dispatch_ll:early=1,part=512,pause=0,pdl=1,receivers=0,send=512,sms=3,threads=64"),
			row(p, ep.Dispatch, 3, 4, "dispatch_ll_split:part=512,pdl=0,recv_sms=2,send=512,sms=3,threads=64"),
			row(p, ep.Dispatch, 5, 8, "dispatch_ll:early=0,part=512,pause=0,pdl=0,receivers=1,send=512,sms=4,threads=64"),
			row(p, ep.Dispatch, 9, 16, "dispatch_final:algo=dedup,scales=row,sms=4,threads=64,wait_sms=2"),
			row(p, ep.Combine, 1, 3, "combine_ll:algo=direct,pdl=1,sms=2,threads=64"),
			row(p, ep.Combine, 4, 6, "combine_ll_split:algo=direct,pdl=1,recv_sms=3,sms=2,threads=64"),
			row(p, ep.Combine, 7, 16, "combine_final:algo=direct,in_flight=0,sms=3,threads=64,wait_sms=1"))
	}
	return pack.Request{
		Problem: shape, DTypes: []ep.DType{ep.BF16, ep.FP8}, Machine: m,
		Tables: table.Overlay(table.Source{Name: "test", Table: t}), ABI: "test",
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
