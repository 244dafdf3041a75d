package table_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

var machine = ep.Machine{Backend: "cuda", PCIID: "10de:2335", Arch: "sm_90", SMs: 132, GPUs: 8}

var problem = ep.Problem{
	Op: ep.Dispatch, Mode: ep.Graph, Ranks: 8, Nodes: 1,
	Hidden: 7168, Experts: 256, TopK: 8, MaxTokens: 4096,
	Dispatch: ep.FP8, Combine: ep.BF16,
}

func tuned() *table.Table {
	row := func(class ep.Class, lo, hi int, sms ep.Value) table.Row {
		return table.Row{Key: table.KeyOf(problem, class), Lo: lo, Hi: hi, Config: ep.Config{Kernel: "dispatch"}.With("sms", sms)}
	}
	t := &table.Table{
		Schema: table.Schema,
		Header: table.Header{ABI: "d294d935a5ee", Created: time.Now(), Machine: machine, Fallback: []string{"routing", "hidden"}},
		Rows:   []table.Row{row(ep.Even, 1, 64, "16"), row(ep.AllRoutings, 1, 512, "64")},
	}
	if err := t.Seal(); err != nil {
		panic(err)
	}
	return t
}

func Example() {
	set := table.Overlay(table.Source{Name: "tuned.json", Table: tuned()}) // or table.Open
	host := table.Host{Machine: machine, ABI: "d294d935a5ee"}
	resolved := set.Resolve(host, problem) // once

	digests := make([]table.Digest, problem.Ranks)
	for rank := range digests {
		digests[rank] = resolved.Digest() // all ranks hold the same table
	}
	resolved = resolved.Agree(digests)

	for _, step := range []struct {
		tokens int
		class  ep.Class
	}{{16, ep.Even}, {16, ep.HotRank}, {1000, ep.Even}} {
		answer := resolved.Lookup(step.tokens, step.class) // at every step
		fmt.Println(step.tokens, step.class, answer.Config.Key(), answer.Reason, answer.Differs)
	}
	// Output:
	// 16 even dispatch:sms=16 exact []
	// 16 hot-rank dispatch:sms=64 fallback [routing]
	// 1000 even default uncovered []
}

func ExampleTable_Refusal() {
	t := tuned()
	fmt.Println(t.Refusal(table.Host{Machine: machine, ABI: "d294d935a5ee"}, problem))
	fmt.Println(t.Refusal(table.Host{Machine: machine, ABI: "0123456789ab"}, problem))
	fewer := problem
	fewer.Ranks = 4
	fmt.Println(t.Refusal(table.Host{Machine: machine}, fewer))
	// Output:
	// <nil>
	// abi: the table is for kernels d294d935a5ee, these are 0123456789ab; tune again
	// ranks: the table has no row for 4 ranks, and rows for other rank counts never answer
}

func ExampleSet_Explain() {
	set := table.Overlay(table.Source{Table: tuned()})
	for _, r := range set.Explain(table.KeyOf(problem, ep.Even), 100).Rows {
		fmt.Printf("%s: %s\n", r.Row.Config.Key(), r.Note)
	}
	// Output:
	// dispatch:sms=16: covers tokens 1 to 64 only
	// dispatch:sms=64: answers
}

func ExampleLoad() {
	var text strings.Builder
	if _, err := tuned().WriteTo(&text); err != nil {
		panic(err)
	}
	_, err := table.Load(strings.NewReader(strings.Replace(text.String(), `"ranks":8`, `"ranks":7`, 1)))
	fmt.Println(err)
	// Output:
	// line 6: rows[0].key.experts: 256 is not a multiple of 7 ranks; ranks can be 1, 2, 4, 8, 16, 32, 64
}
