package model

import (
	"math"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// Coefficients holds the fitted costs. The time of a call inside one host is
//
//	(fixed^p + stream^p)^(1/p), p = 1 + sharpness
//
// in microseconds. `fixed` grows with the local experts, and with each doubling of the host's ranks. `stream` combines
// the times of link, memory and SMs: see Predict. A megabyte has 10^6 bytes.
type Coefficients struct {
	Fixed     float64 `yaml:"fixed_us"`
	Expert    float64 `yaml:"us_per_local_expert"`
	Doubling  float64 `yaml:"us_per_doubling_of_ranks"`
	LinkShare float64 `yaml:"link_share"`
	Local     float64 `yaml:"us_per_mb_of_expert_rows"`
	Own       float64 `yaml:"us_per_mb_of_own_tokens"`
	Row       float64 `yaml:"us_per_expert_row"`
	SM        float64 `yaml:"us_per_mb_of_one_sm"`
	Sharpness float64 `yaml:"sharpness"`
}

func (c *Coefficients) list() []*float64 {
	return []*float64{&c.Fixed, &c.Expert, &c.Doubling, &c.LinkShare, &c.Local, &c.Own, &c.Row, &c.SM, &c.Sharpness}
}

// Vector returns the coefficients in the order of their fields.
func (c Coefficients) Vector() []float64 {
	var out []float64
	for _, v := range c.list() {
		out = append(out, *v)
	}
	return out
}

// FromVector undoes Vector.
func FromVector(x []float64) Coefficients {
	var c Coefficients
	for i, v := range c.list() {
		*v = x[i]
	}
	return c
}

// Call holds the work of the busiest rank in one call. Sizes are in bytes.
type Call struct {
	Host         float64 // inside the host
	Network      float64 // over the network
	Rows         float64 // rows of the fullest rank
	Expert       float64
	Own          float64 // a rank's own tokens in BF16
	LocalExperts float64
	HostRanks    float64
	SMs          float64
	Hops         int // over the network
	Forwards     int // inside the receiving host
}

// NewCall returns the work of a dispatch or a combine.
func NewCall(op ep.Op, p ep.Problem, s Shape, t Transport, n Traffic, sms int) Call {
	bytes := float64(workloads.MessageBytes(p.Dispatch, p.Hidden, p.TopK))
	if op == ep.Combine {
		bytes = float64(workloads.CombineBytes(p.Hidden))
	}
	c := Call{
		Host: n.Host * bytes, Network: n.Network * bytes, Rows: n.Rows, Expert: n.Rows * bytes,
		LocalExperts: math.Ceil(float64(s.Experts) / float64(s.Ranks)), HostRanks: float64(s.PerHost),
		SMs: float64(sms), Own: float64(s.Tokens) * float64(2*p.Hidden),
	}
	if s.Ranks > s.PerHost {
		c.Hops = 1
		if t == PerHost {
			c.Forwards = 1
		}
	}
	return c
}

// Then returns the work of a pair of calls: c, then d.
func (c Call) Then(d Call) Call {
	c.Host, c.Network, c.Rows, c.Expert = c.Host+d.Host, c.Network+d.Network, c.Rows+d.Rows, c.Expert+d.Expert
	c.Hops, c.Forwards = c.Hops+d.Hops, c.Forwards+d.Forwards
	return c
}

// Limit names the largest part of a predicted time.
type Limit string

const (
	LimitFixed   Limit = "fixed cost"
	LimitLatency Limit = "network latency"
	LimitLink    Limit = "link in the host"
	LimitMemory  Limit = "rows in memory"
	LimitSMs     Limit = "SMs"
	LimitNetwork Limit = "network bytes"
)

// Prediction is a predicted time and the parts of this time, in seconds.
type Prediction struct {
	Seconds   float64
	Limit     Limit
	Transport Transport
	Fixed     float64
	Latency   float64
	Link      float64
	Memory    float64
	SMs       float64
	Network   float64
}

// Predict returns the time of a call. Transfers over the network overlap with transfers inside a host.
// Latencies add up.
func Predict(c Coefficients, call Call, host, net Link) Prediction {
	p := Prediction{
		Fixed: c.Fixed + c.Expert*call.LocalExperts + c.Doubling*math.Log2(call.HostRanks),
		Link:  call.Host / (host.Bandwidth.Value * 1e3 * c.LinkShare),
	}
	p.Memory = (c.Local*call.Expert+c.Own*call.Own)/1e6 + c.Row*call.Rows
	p.SMs = c.SM * (call.Host + call.Expert) / 1e6 / call.SMs
	if call.Hops > 0 {
		p.Network = call.Network / (net.Bandwidth.Value * 1e3)
		p.Latency = float64(call.Hops)*max(net.Latency.Value-host.Latency.Value, 0) + float64(call.Forwards)*host.Latency.Value
	}
	inside := norm(4, p.Link+p.Memory, p.SMs)
	p.Seconds = 1e-6 * norm(1+c.Sharpness, p.Fixed+p.Latency, max(inside, p.Network))
	p.limit()
	return p.inSeconds()
}

func norm(p, a, b float64) float64 {
	big := max(a, b)
	if big <= 0 {
		return 0
	}
	return big * math.Pow(math.Pow(a/big, p)+math.Pow(b/big, p), 1/p)
}

func (p *Prediction) limit() {
	most := -1.0
	for _, part := range []struct {
		us   float64
		name Limit
	}{{p.Fixed, LimitFixed}, {p.Latency, LimitLatency}, {p.Link, LimitLink}, {p.Memory, LimitMemory}, {p.SMs, LimitSMs}, {p.Network, LimitNetwork}} {
		if part.us > most {
			most, p.Limit = part.us, part.name
		}
	}
}

func (p Prediction) inSeconds() Prediction {
	for _, v := range []*float64{&p.Fixed, &p.Latency, &p.Link, &p.Memory, &p.SMs, &p.Network} {
		*v *= 1e-6
	}
	return p
}
