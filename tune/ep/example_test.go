package ep_test

import (
	"fmt"

	"github.com/epbench/epbench/tune/ep"
)

func ExampleProblem_Validate() {
	p := ep.Problem{
		Op: ep.Dispatch, Mode: ep.Graph, Ranks: 8, Nodes: 1,
		Hidden: 7168, Experts: 256, TopK: 8, Tokens: 128, MaxTokens: 4096,
		Dispatch: ep.FP8, Combine: ep.BF16,
	}
	fmt.Println(p.Validate())
	p.Hidden = 2880
	fmt.Println(p.Validate())
	p.Hidden, p.Ranks = 7168, 7
	fmt.Println(p.Validate())
	// Output:
	// <nil>
	// hidden: 2880 is not a multiple of 128, which fp8 needs; pad it to 2944 or use bf16
	// experts: 256 is not a multiple of 7 ranks; ranks can be 1, 2, 4, 8, 16, 32, 64
}

func ExampleParseConfig() {
	c, err := ep.ParseConfig("dispatch:threads=512,algo=dedup")
	if err != nil {
		panic(err)
	}
	fmt.Println(c.Key(), c.Int("threads"), c.Str("algo"))
	fmt.Println(c.With("threads", "1024").Key())
	fmt.Println(ep.Config{}.Key())
	// Output:
	// dispatch:algo=dedup,threads=512 512 dedup
	// dispatch:algo=dedup,threads=1024
	// default
}

// Here 2 ranks have 8 experts.
func ExampleClassify() {
	fmt.Println(ep.Classify([]int64{1000, 1010, 990, 1000, 1000, 1005, 995, 1000}, 2))
	fmt.Println(ep.Classify([]int64{4000, 100, 100, 100, 4000, 100, 100, 100}, 2))
	fmt.Println(ep.Classify([]int64{2000, 2000, 2000, 2000, 10, 10, 10, 10}, 2))
	fmt.Println(ep.Classify(make([]int64, 8), 2))
	// Output:
	// even
	// skewed
	// hot-rank
	// all
}

func ExampleParseInts() {
	fmt.Println(ep.ParseInts("1:64:x4, 3"))
	fmt.Println(ep.ParseInts("8:132:62"))
	fmt.Println(ep.ParseInts("8:4"))
	// Output:
	// [1 3 4 16 64] <nil>
	// [8 70 132] <nil>
	// [] range "8:4": 4 is below 8
}
