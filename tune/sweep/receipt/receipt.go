// Package receipt measures rows of a tuned table again, on the machine that will use them. A receipt records whether
// the rows' gains hold there.
package receipt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/sweep"
	"github.com/epbench/epbench/tune/table"
)

// Schema is the version of a receipt file.
const Schema = 2

// A Receipt records one verification of a table.
type Receipt struct {
	Schema  int        `json:"schema"`
	ID      string     `json:"id"` // sha256 of the receipt with this field empty
	Table   string     `json:"table"`
	Tool    string     `json:"tool"`
	Created time.Time  `json:"created"` // UTC
	Machine ep.Machine `json:"machine"`
	ABI     ep.ABI     `json:"abi"`
	Policy  string     `json:"policy"`
	// Protocol is the revision of the rules for measuring.
	Protocol int     `json:"protocol,omitempty"`
	Checks   []Check `json:"checks"`
}

// A Check is one row measured against the default under one routing.
type Check struct {
	Key     table.Key       `json:"key"`
	Tokens  int             `json:"tokens"`
	Routing string          `json:"routing"`
	Config  ep.Config       `json:"config"` // as the table spells it
	Clock   string          `json:"clock"`
	Rounds  int             `json:"rounds"`
	Band    record.Band     `json:"band"`
	Gain    record.Interval `json:"gain"`    // measured: default's time divided by the config's
	Claimed record.Interval `json:"claimed"` // see table.Header.GainInterval
	Verdict record.Verdict  `json:"verdict"`
	Claim   Claim           `json:"claim"`
	Reason  string          `json:"reason"` // why the claim does not hold
	// Launched is the config as the measured build spells it, if this spelling differs from the table's.
	Launched ep.Config `json:"launched,omitzero"`
}

// A Claim says whether the gain of a row holds.
type Claim string

const (
	Holds     Claim = "holds"     // as fast as claimed
	Shrunk    Claim = "shrunk"    // less gain than claimed, but not slower than the default
	Undecided Claim = "undecided" // the measurement does not decide
	Slower    Claim = "slower"
	Failed    Claim = "failed" // does not run, or gives wrong answers
)

// Worst returns the worst claim of the receipt, or Holds if it has no checks.
func (r *Receipt) Worst() Claim {
	order := []Claim{Holds, Shrunk, Undecided, Slower, Failed}
	worst := 0
	for _, c := range r.Checks {
		worst = max(worst, slices.Index(order, c.Claim))
	}
	return order[worst]
}

// WriteTo sets the id and writes the receipt as JSON.
func (r *Receipt) WriteTo(w io.Writer) (int64, error) {
	r.Schema, r.ID, r.Created = Schema, "", r.Created.UTC().Truncate(time.Second)
	if r.Checks == nil {
		r.Checks = []Check{}
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return 0, err
	}
	sum := sha256.Sum256(text)
	r.ID = hex.EncodeToString(sum[:])
	if text, err = json.MarshalIndent(r, "", "  "); err != nil {
		return 0, err
	}
	n, err := w.Write(append(text, '\n'))
	return int64(n), err
}

// Pick returns k rows to check, spread evenly over the rows that do not keep the default. If k is 0, it returns all
// of them.
func Pick(t *table.Table, k int) []*table.Row {
	var all []*table.Row
	for i := range t.Rows {
		if !t.Header.IsDefault(t.Rows[i]) {
			all = append(all, &t.Rows[i])
		}
	}
	if k == 0 || k >= len(all) {
		return all
	}
	out := make([]*table.Row, k)
	for i := range out {
		out[i] = all[(2*i+1)*len(all)/(2*k)]
	}
	return out
}

// Row measures one row by the rules of a sweep. If the row serves all routings, Row measures it under every routing
// that the row records. Row measures any other row under one routing. An error means that the machine is lost.
func Row(ctx context.Context, m *sweep.RowVerifier, r *table.Row) ([]Check, error) {
	specs := r.Evidence.Routings
	if r.Key.Routing != ep.AllRoutings && len(specs) > 1 {
		specs = specs[:1]
	}
	var out []Check
	for _, spec := range specs {
		tokens := tokensOf(r)
		got, err := m.Verify(ctx, problemOf(r, tokens), spec, r.Config, r.Evidence.Sessions)
		if err != nil {
			return out, err
		}
		out = append(out, newCheck(m.Claimed(r), r, tokens, got))
	}
	return out, nil
}

func problemOf(r *table.Row, tokens int) ep.Problem {
	at, ok := r.Evidence.At()
	if !ok {
		at = tokens
	}
	p := r.Key.Problem(at)
	p.Beside = r.Evidence.Beside
	return p.AtTokens(tokens, tokens)
}

func tokensOf(r *table.Row) int {
	for _, n := range slices.Backward(r.Evidence.Tokens) {
		if r.Lo <= n && n <= r.Hi {
			return n
		}
	}
	return r.Hi
}

func newCheck(claimed record.Interval, r *table.Row, tokens int, got record.Search) Check {
	d := got.Decision
	check := Check{
		Key: r.Key, Tokens: tokens, Routing: got.Routing, Config: r.Config, Clock: got.Clock,
		Rounds: d.Rounds, Band: d.Band, Gain: d.Gain, Verdict: d.Verdict,
		Claimed: claimed,
	}
	if d.Config.Key() != r.Config.Key() {
		check.Launched = d.Config
	}
	check.Claim, check.Reason = claim(d, check.Claimed)
	return check
}

func claim(d record.Decision, claimed record.Interval) (c Claim, reason string) {
	switch {
	case d.Cause == record.Failed:
		return Failed, d.Reason
	case d.Cause == record.Noisy, d.Cause == record.NoDefault:
		return Undecided, d.Reason
	case d.Verdict == record.Slower:
		return Slower, fmt.Sprintf("%.1f %% slower than the default", 100*(1/d.Gain.Mid-1))
	case d.Verdict == record.Undecided:
		return Undecided, "the gain's interval lies partly inside and partly outside the band"
	case d.Gain.High < claimed.Low:
		return Shrunk, fmt.Sprintf("gain below the claimed %.3f [%.3f, %.3f]", claimed.Mid, claimed.Low, claimed.High)
	}
	return Holds, ""
}
