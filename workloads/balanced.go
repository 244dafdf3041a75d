package workloads

var balancedKind = kind{
	name: "balanced", doc: "random, but all ranks together select every expert equally often (counts differ by at most one)",
	build: func(_ args, r *recipe) error { r.law = balanced; return nil },
}

func balanced(s drawRequest) (filler, error) { return dealer{experts: s.Experts, seed: s.seed}, nil }

// dealer deals the experts to the tokens like cards of a pack. It shuffles the pack only between two tokens. After a
// shuffle within a token, the token could get an expert twice.
type dealer struct {
	experts int
	seed    uint64
}

func (d dealer) fill(_ *rng, c chunk) {
	cycle := d.experts / gcd(d.experts, c.k) // tokens between shuffles
	var pack []int32
	for i := range len(c.ids) / c.k {
		round, at := (c.total+i)/cycle, (c.total+i)%cycle
		if pack == nil || at == 0 {
			pack = newRNG(d.seed, streamDeal, uint64(round)).perm(d.experts)
		}
		for j := range c.k {
			c.ids[i*c.k+j] = pack[(at*c.k+j)%d.experts]
		}
	}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

var roundrobinKind = kind{
	name: "roundrobin", doc: "the experts take turns: selection i goes to expert i mod experts; i counts the selections of rank 0, then of rank 1, and so on",
	build: func(_ args, r *recipe) error { r.law = roundrobin; return nil },
}

func roundrobin(s drawRequest) (filler, error) { return counter(s.Experts), nil }

type counter int

func (n counter) fill(_ *rng, c chunk) {
	e := c.total * c.k % int(n)
	for i := range c.ids {
		c.ids[i] = int32(e)
		if e++; e == int(n) {
			e = 0
		}
	}
}
