package record

import (
	"bytes"
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/epbench/epbench/tune/ep"
)

// This file is all that knows schema 1, the run directories written before
// decisions, regret and costs were recorded. Such runs are read, never gone on
// with.

// words1 spells what schema 1 called results as schema 2 does.
func words1(b []byte) []byte {
	for _, w := range [][2]string{
		{`"results":"any"`, `"precision":"reduced"`}, {`"results": "any"`, `"precision": "reduced"`},
		{` results=any"`, ` precision=reduced"`},
	} {
		b = bytes.ReplaceAll(b, []byte(w[0]), []byte(w[1]))
	}
	return b
}

// upgrade completes a trial of schema 1.
func (r *Result) upgrade() {
	r.Schema = Schema
	r.Cost = costByName(r.Config)
}

// costByName is what schema 1 says about the cost of a config: the names of
// its parameters. Every kernel of that time kept to them.
func costByName(c ep.Config) ep.Cost {
	var out ep.Cost
	for name := range c.Values {
		switch name[strings.LastIndexByte(name, '.')+1:] {
		case "sms", "blocks":
			out.SMs = max(out.SMs, c.Int(name))
		case "threads":
			out.Threads = max(out.Threads, c.Int(name))
		}
	}
	return out
}

// run1 is run.json of schema 1.
type run1 struct {
	Run      `json:",inline"`
	Outcomes []outcome1 `json:"outcomes"`
}

// outcome1 is what schema 1 says about one search.
type outcome1 struct {
	Problem     ep.Problem `json:"problem"`
	Routing     string     `json:"routing"`
	Class       ep.Class   `json:"class"`
	Verdict     string     `json:"verdict"`
	Reason      string     `json:"reason"`
	Config      ep.Config  `json:"config"`
	Default     ep.Config  `json:"default"`
	Clock       string     `json:"clock"`
	Median      float64    `json:"median"`
	P10         float64    `json:"p10"`
	P90         float64    `json:"p90"`
	DefaultTime float64    `json:"default_median"`
	Rounds      int        `json:"rounds"`
	Gain        float64    `json:"gain"`
	GainLo      float64    `json:"gain_lo"`
	GainHi      float64    `json:"gain_hi"`
	AA          float64    `json:"aa"`
	Ties        int        `json:"ties"`
	Evaluations int        `json:"evaluations"`
	Legal       int        `json:"legal"`
	Bytes       int64      `json:"bytes"`
	Imbalance   float64    `json:"imbalance"`
	Quarantined int        `json:"quarantined"`
	MaxErr      float64    `json:"max_err"`
}

// errSchema1 keeps an old run from being gone on with.
var errSchema1 = errors.New("written by an epbench of schema 1, whose runs can be read but not gone on with; start a new run")

// decode1 reads run.json of schema 1.
func (r *Run) decode1(b []byte) error {
	var old run1
	if err := json.Unmarshal(words1(b), &old, strict); err != nil {
		return plain(err)
	}
	*r = old.Run
	r.Schema, r.Read, r.Band = Schema, 1, bandOf(r.Policy)
	for _, o := range old.Outcomes {
		r.Searches = append(r.Searches, o.search(r.Band))
	}
	return nil
}

var bandInPolicy = regexp.MustCompile(`\bband=([0-9.e+-]+)`)

// bandOf finds the band in the spelling of a policy; schema 1 had it nowhere
// else.
func bandOf(policy string) float64 {
	if m := bandInPolicy.FindStringSubmatch(policy); m != nil {
		band, _ := strconv.ParseFloat(m[1], 64) // 0 for a policy that has none
		return band
	}
	return 0
}

// search is an outcome as schema 2 says it. Schema 1 kept no gain of a
// challenger that lost.
func (o outcome1) search(band float64) Search {
	if o.Config.IsDefault() { // nothing was measured
		o.Config, o.Gain, o.GainLo, o.GainHi = o.Default, 1, 1, 1
	}
	gain := Interval{Mid: o.Gain, Low: o.GainLo, High: o.GainHi}
	d := Decision{
		Config: o.Config, Default: o.Default, Gain: gain, Challenger: o.Config, ChallengerGain: gain,
		Band: Band{Policy: band, AA: o.AA}, Reason: o.Reason, Rounds: o.Rounds,
	}
	d.Verdict, d.Cause = o.verdict()
	s := Search{
		Problem: o.Problem, Routing: o.Routing, Class: o.Class, Decision: d, Clock: o.Clock, MaxErr: o.MaxErr,
		Times: Times{Median: o.Median, P10: o.P10, P90: o.P90}, DefaultTime: Times{Median: o.DefaultTime},
		Tried: o.Evaluations, Legal: o.Legal, Ties: o.Ties, Failed: o.Quarantined, Bytes: o.Bytes, Imbalance: o.Imbalance,
	}
	if d.Cause == Noisy { // schema 1 named the winner of a search that decided nothing
		s.Decision.Config, s.Decision.Gain, s.Times = o.Default, One, s.DefaultTime
	}
	return s
}

// verdict is what schema 2 calls an outcome of schema 1. "default" and
// "incumbent" said which config stayed.
func (o outcome1) verdict() (Verdict, Cause) {
	switch o.Verdict {
	case "default":
		return Same, ""
	case "faster", "incumbent":
		return Faster, ""
	case "slower":
		return Slower, ""
	case "tie":
		return Undecided, ""
	case "host-bound":
		return Same, HostBound
	case "noisy":
		return Undecided, Noisy
	case "failed":
		if o.Config.Key() != o.Default.Key() { // of bench, which was asked for it
			return Undecided, Failed
		}
		return Undecided, NoDefault
	}
	return Verdict(o.Verdict), "" // check refuses it
}
