package replay

import (
	"math"

	gonum "gonum.org/v1/gonum/stat"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

const claimSessions = 3

// Stability says how much the gains of a config differ between sessions. It counts pairs of gains of the same config,
// and the pairs that differ clearly: by more than 1.96 joint standard errors.
type Stability struct {
	Configs  int `json:"configs"`  // with a gain in several sessions
	Sessions int `json:"sessions"` // largest number of sessions of a config

	Alone       int `json:"alone"`        // pairs in which each gain is from one session
	AloneBeyond int `json:"alone_beyond"` // pairs of Alone that differ clearly
	Claims      int `json:"claims"`       // pairs in which the spread between sessions widens the intervals
	Beyond      int `json:"beyond"`       // pairs of Claims that differ clearly

	TimeSpread float64 `json:"time_spread"` // relative deviation of a config's time
	GainSpread float64 `json:"gain_spread"` // relative deviation of a config's gain
}

// Add adds another run's pairs.
func (s *Stability) Add(o Stability) {
	a, b := float64(s.Configs), float64(o.Configs)
	mix := func(x, y float64) float64 { return math.Sqrt((a*x*x + b*y*y) / max(a+b, 1)) }
	s.TimeSpread, s.GainSpread = mix(s.TimeSpread, o.TimeSpread), mix(s.GainSpread, o.GainSpread)
	s.Configs, s.Alone, s.AloneBeyond, s.Claims, s.Beyond = s.Configs+o.Configs, s.Alone+o.Alone, s.AloneBeyond+o.AloneBeyond, s.Claims+o.Claims, s.Beyond+o.Beyond
	s.Sessions = max(s.Sessions, o.Sessions)
}

type sessionGains struct {
	sessions []stat.Part
	times    [][]float64 // [session] logarithms of the config's times
	confirm  stat.Part   // in the search's own session
}

// StabilityOf compares the gains of each config between sessions. For Alone, it compares each session with the next
// one. For Claims, it compares three sessions with the next three. With fewer than six sessions, it compares all of
// them with the rounds that confirmed the config in its search, whose interval it widens by the spread between
// sessions.
func StabilityOf(results []record.Result) Stability {
	var out Stability
	var timeSquares, gainSquares []float64
	for _, g := range gainsBySession(results) {
		if len(g.sessions) < claimSessions {
			continue
		}
		out.Configs++
		out.Sessions = max(out.Sessions, len(g.sessions))
		var gains []float64
		for i, p := range g.sessions {
			gains = append(gains, stat.Ratio(p).Mid)
			if i > 0 {
				out.Alone++
				out.AloneBeyond += beyond(stat.Ratio(g.sessions[i-1]), stat.Ratio(p))
			}
		}
		out.claims(g, deviation(gains))
		gainSquares = append(gainSquares, math.Pow(deviation(gains), 2))
		var times []float64
		for _, xs := range g.times {
			times = append(times, math.Exp(stat.Median(xs)))
		}
		timeSquares = append(timeSquares, math.Pow(deviation(times), 2))
	}
	out.TimeSpread, out.GainSpread = math.Sqrt(mean(timeSquares)), math.Sqrt(mean(gainSquares))
	return out
}

func (s *Stability) claims(g sessionGains, spread float64) {
	if len(g.sessions) >= 2*claimSessions {
		for i := 0; i+2*claimSessions <= len(g.sessions); i += 2 * claimSessions {
			s.Claims++
			s.Beyond += beyond(stat.Ratio(g.sessions[i:i+claimSessions]...), stat.Ratio(g.sessions[i+claimSessions:i+2*claimSessions]...))
		}
		return
	}
	if len(g.confirm.A) == 0 {
		return
	}
	s.Claims++
	later := stat.Ratio(g.confirm)
	over := stat.Ratio(g.sessions...)
	later.AddSession(spread, len(g.sessions))
	s.Beyond += beyond(over, later)
}

func beyond(a, b stat.Estimate) int {
	if stat.Differ(a.Interval, b.Interval) {
		return 1
	}
	return 0
}

func deviation(xs []float64) float64 { return gonum.StdDev(stat.Logs(xs), nil) }

func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / max(float64(len(xs)), 1)
}

func gainsBySession(results []record.Result) []sessionGains {
	type search struct {
		problem ep.Problem
		routing string
	}
	type block struct {
		search
		stage record.Stage
		n     int
	}
	type config struct {
		search
		key string
	}
	defaults := map[block]*record.Result{}
	for i := range results {
		if r := &results[i]; r.Role == record.Default {
			defaults[block{search{r.Problem, r.Routing}, r.Stage, r.Block}] = r
		}
	}
	var out []*sessionGains
	byConfig := map[config]*sessionGains{}
	for i := range results {
		r := &results[i]
		at := search{r.Problem, r.Routing}
		base := defaults[block{at, r.Stage, r.Block}]
		if r.Stage != record.StageSession && r.Stage != record.StageConfirm || r.Role == record.Default || r.Role == record.Twin || base == nil || r.Status != ep.OK {
			continue
		}
		key := config{at, r.Config.Key()}
		g := byConfig[key]
		if g == nil {
			g = &sessionGains{}
			byConfig[key], out = g, append(out, g)
		}
		g.add(r, base)
	}
	var all []sessionGains
	for _, g := range out {
		all = append(all, *g)
	}
	return all
}

func (g *sessionGains) add(r, base *record.Result) {
	mine, theirs := stat.Logs(r.Rounds()), stat.Logs(base.Rounds())
	n := min(len(mine), len(theirs))
	p := stat.Part{Session: r.SessionID(), A: theirs[:n], B: mine[:n]}
	last := len(g.sessions) - 1
	switch {
	case n == 0:
	case r.Stage == record.StageConfirm:
		g.confirm.A, g.confirm.B = append(g.confirm.A, p.A...), append(g.confirm.B, p.B...)
	case last >= 0 && g.sessions[last].Session == p.Session:
		g.sessions[last].A, g.sessions[last].B = append(g.sessions[last].A, p.A...), append(g.sessions[last].B, p.B...)
		g.times[last] = append(g.times[last], mine...)
	default:
		g.sessions, g.times = append(g.sessions, p), append(g.times, mine)
	}
}
