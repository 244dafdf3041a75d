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

// words1 spells what schema 1 called results, and the class any, as schema 2
// does.
func words1(b []byte) []byte {
	for _, w := range [][2]string{
		{`"results":"any"`, `"precision":"reduced"`}, {`"results": "any"`, `"precision": "reduced"`},
		{` results=any"`, ` precision=reduced"`}, {`"class": "any"`, `"class": "all"`},
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

// decodeRun1 reads run.json of schema 1.
func decodeRun1(b []byte) (*Run, error) {
	var old run1
	if err := json.Unmarshal(words1(b), &old, strict); err != nil {
		return nil, plain(err)
	}
	run := &old.Run
	run.Schema, run.Read, run.Band = Schema, 1, bandOf(run.Policy)
	for _, o := range old.Outcomes {
		run.Searches = append(run.Searches, o.search(run.Band))
	}
	return run, nil
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
	gain := Interval{Mid: o.Gain, Low: o.GainLo, High: o.GainHi}
	if o.Config.IsDefault() { // nothing was measured
		o.Config, gain = o.Default, One
	}
	d := Decision{
		Config: o.Config, Default: o.Default, Gain: gain, Challenger: o.Config, ChallengerGain: gain,
		Band: Band{Policy: band, AA: o.AA}, Reason: o.Reason, Rounds: o.Rounds, Verdict: Same,
	}
	switch o.Verdict {
	case "faster", "incumbent":
		d.Verdict = Faster
	case "slower":
		d.Verdict = Slower
	case "tie":
		d.Verdict = Undecided
	case "host-bound":
		d.Cause = HostBound
	case "noisy":
		d.Cause, d.Verdict = Noisy, Undecided
	case "failed":
		d.Cause, d.Verdict = NoDefault, Undecided
		if o.Config.Key() != o.Default.Key() { // of bench, which was asked for it
			d.Cause = Failed
		}
	}
	return Search{
		Problem: o.Problem, Routing: o.Routing, Class: o.Class, Decision: d, Clock: o.Clock, MaxErr: o.MaxErr,
		Times: Times{Median: o.Median, P10: o.P10, P90: o.P90}, DefaultTime: Times{Median: o.DefaultTime},
		Tried: o.Evaluations, Legal: o.Legal, Ties: o.Ties, Failed: o.Quarantined, Bytes: o.Bytes, Imbalance: o.Imbalance,
	}
}
