package model

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/processor"
	"github.com/epbench/epbench/workloads"
)

func parse(t interface{ Fatal(...any) }, spec string) workloads.Distribution {
	d, err := workloads.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestCountsAreThoseOfTheMatrix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.SampledFrom([]int{2, 4, 8}).Draw(t, "ranks")
		p := ep.Problem{Op: ep.Dispatch, Mode: ep.Graph, Ranks: ranks, Nodes: 1, Hidden: 128, Experts: 16, TopK: rapid.IntRange(1, 6).Draw(t, "top-k"),
			Tokens: rapid.IntRange(0, 40).Draw(t, "tokens"), MaxTokens: 40, Dispatch: ep.BF16, Combine: ep.BF16}
		w, err := workloads.New(parse(t, rapid.SampledFrom([]string{"uniform", "zipf:1.0", "hotrank:1.5", "masked:0.3", "ragged:0"}).Draw(t, "routing")), p, rapid.Uint64().Draw(t, "seed"))
		if err != nil {
			t.Fatal(err)
		}
		n := Counted(w)
		for i, via := range []workloads.MessageKind{workloads.Direct, workloads.Dedup, workloads.Dedup} {
			if want := float64(w.Messages(via).Busiest()); n[i].Host != want || n[i].Network != 0 {
				t.Errorf("%s: %v in the host and %v outside, want %v and none", Transports()[i], n[i].Host, n[i].Network, want)
			}
		}
	})
}

func TestForwarding(t *testing.T) {
	s := Shape{Ranks: 4, PerHost: 2, Experts: 4, TopK: 3, Tokens: 1}
	for _, c := range []struct {
		transport         Transport
		host, net, places int
		at                int
	}{
		{Select, 1, 2, 3, 0}, {PerRank, 1, 2, 3, 0}, {PerHost, 1, 1, 2, 2},
	} {
		y := newTally(s, c.transport)
		y.token(0, []int{1, 2, 3})
		if got := y.host.out[c.at]; got != int64(c.host) {
			t.Errorf("%s: rank %d sends %d messages in its host, want %d", c.transport, c.at, got, c.host)
		}
		if got := y.net.out[0]; got != int64(c.net) || y.places != c.places {
			t.Errorf("%s: %d messages over the network and %d places, want %d and %d", c.transport, got, y.places, c.net, c.places)
		}
	}
}

func TestNetworkBytesFall(t *testing.T) {
	for _, spec := range []string{"uniform", "zipf:1.0", "hotrank:4"} {
		n, err := Count(Shape{Ranks: 64, PerHost: 8, Experts: 256, TopK: 8, Tokens: 64}, parse(t, spec), 1)
		if err != nil {
			t.Fatal(err)
		}
		if !(n[0].Network >= n[1].Network && n[1].Network > n[2].Network && n[2].Network > 0) {
			t.Errorf("%s: %v, %v, %v messages over the network", spec, n[0].Network, n[1].Network, n[2].Network)
		}
	}
}

func TestBusiestIsNotTheMean(t *testing.T) {
	s := Shape{Ranks: 64, PerHost: 8, Experts: 256, TopK: 8, Tokens: 256}
	n, err := Count(s, parse(t, "zipf:1.0"), 1)
	if err != nil {
		t.Fatal(err)
	}
	if mean := float64(s.Tokens * s.TopK); n[0].Rows < 3*mean {
		t.Errorf("the fullest rank has %v rows, the mean is %v", n[0].Rows, mean)
	}
}

func TestReplicas(t *testing.T) {
	for _, c := range []struct{ experts, ranks int }{{256, 2048}, {256, 144}, {384, 2048}, {256, 64}, {7, 5}} {
		p := newPlacement(c.experts, c.ranks)
		used := make([]int, c.ranks)
		for e := range c.experts {
			seen := map[int]bool{}
			for token := range 4 * c.ranks {
				r := p.ranks(nil, token, []int32{int32(e)})[0]
				if r < 0 || r >= c.ranks {
					t.Fatalf("%d experts on %d ranks: expert %d on rank %d", c.experts, c.ranks, e, r)
				}
				if !seen[r] {
					used[r]++
				}
				seen[r] = true
			}
		}
		for r, n := range used {
			if n == 0 {
				t.Errorf("%d experts on %d ranks: rank %d has none", c.experts, c.ranks, r)
			}
		}
	}
}

func TestManyRanksAreFast(t *testing.T) {
	if testing.Short() {
		t.Skip("draws 16 million selections")
	}
	s := Shape{Ranks: 2048, PerHost: 8, Experts: 256, TopK: 8, Tokens: 4096}
	start := processor.Time(t)
	n, err := Count(s, parse(t, "uniform"), 1)
	if err != nil {
		t.Fatal(err)
	}
	if took := processor.Time(t) - start; took > time.Minute {
		t.Errorf("took %v", took)
	}
	mean := float64(s.Tokens * s.TopK)
	if n[0].Drawn >= s.Tokens || n[0].Rows < mean || n[0].Rows > 1.15*mean {
		t.Errorf("%d tokens drawn, %v rows on the fullest rank, the mean is %v", n[0].Drawn, n[0].Rows, mean)
	}
}

func TestShapeNamesTheField(t *testing.T) {
	good := Shape{Ranks: 16, PerHost: 8, Experts: 64, TopK: 4, Tokens: 8}
	for _, c := range []struct {
		want string
		edit func(*Shape)
	}{
		{"ranks: 2049 is outside 1 to 2048", func(s *Shape) { s.Ranks = 2049 }},
		{"ranks a host: 0", func(s *Shape) { s.PerHost = 0 }},
		{"ranks: 16 is not a multiple of 3", func(s *Shape) { s.PerHost = 3 }},
		{"topk: 65", func(s *Shape) { s.TopK = 65 }},
		{"tokens: -1", func(s *Shape) { s.Tokens = -1 }},
	} {
		s := good
		c.edit(&s)
		if err := s.Validate(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}
