// Command runtime uses a tuned table as a serving process does: it resolves the table once for all ranks, and looks up
// a config in every step.
//
//	epbench sweep -o run
//	epbench machine --json > machine.json
//	go run ./examples/runtime run/table.json machine.json
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/tune/table/embedded"
)

var problem = ep.Problem{
	Op: ep.Dispatch, Mode: ep.Eager, Ranks: 4, Nodes: 1,
	Hidden: 512, Experts: 32, TopK: 4, MaxTokens: 4096,
	Dispatch: ep.BF16, Combine: ep.BF16,
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: runtime table.json machine.json")
		os.Exit(2)
	}
	if err := serve(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "runtime:", err)
		os.Exit(1)
	}
}

func serve(path, machine string) error {
	here, err := host(machine)
	if err != nil {
		return err
	}
	locations := table.DefaultLocations()
	locations.Embedded, locations.File = embedded.FS(), path
	set, err := table.Open(locations)
	if err != nil {
		return err
	}
	ranks := newGroup(problem.Ranks)
	for rank := range problem.Ranks {
		ranks.Go(func() { serveRank(rank, set, here, ranks) })
	}
	ranks.Wait()
	return nil
}

func serveRank(rank int, set *table.Set, here table.Host, ranks *group) {
	resolved := set.Resolve(here, problem)
	resolved = resolved.Agree(ranks.gather(rank, resolved.Digest()))
	for _, s := range steps() {
		class := ep.Classify(s.counts, problem.Ranks)
		answer := resolved.Lookup(s.tokens, class) // the hot path: an array index
		if rank == 0 {
			fmt.Printf("%d tokens, %s: %s (%s)\n", s.tokens, class, answer.Config.Key(), answer.Reason)
		}
	}
}

func host(path string) (table.Host, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return table.Host{}, err
	}
	var here struct {
		Machine ep.Machine
		ABI     ep.ABI
	}
	if err := json.Unmarshal(text, &here); err != nil {
		return table.Host{}, fmt.Errorf("%s: %w", path, err)
	}
	return table.Host{Machine: here.Machine, ABI: here.ABI}, nil
}

// step holds the tokens of the fullest rank, and how many recent tokens selected each expert.
type step struct {
	tokens int
	counts []int64
}

func steps() []step {
	even, hot, skewed := make([]int64, 32), make([]int64, 32), make([]int64, 32)
	for e := range 32 {
		even[e], hot[e], skewed[e] = 100, 20, 60
		if e < 8 {
			hot[e] = 900
		}
		if e%4 == 0 {
			skewed[e] = 600
		}
	}
	return []step{{1, even}, {16, even}, {16, skewed}, {64, hot}, {4000, even}}
}

// group stands in for a collective library.
type group struct {
	sync.WaitGroup
	all     []table.Digest
	arrived sync.WaitGroup
}

func newGroup(ranks int) *group {
	g := &group{all: make([]table.Digest, ranks)}
	g.arrived.Add(ranks)
	return g
}

func (g *group) gather(rank int, d table.Digest) []table.Digest {
	g.all[rank] = d
	g.arrived.Done()
	g.arrived.Wait()
	return g.all
}
