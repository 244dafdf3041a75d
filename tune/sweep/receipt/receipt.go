// Package receipt measures rows of a tuned table again on the machine that is
// to use them, and writes down what came of it.
package receipt

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"time"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

// Schema is the version of a receipt file.
const Schema = 1

// Receipt is the record of one verification of a table.
type Receipt struct {
	Schema  int        `json:"schema"`
	ID      string     `json:"id"`    // sha256 of the receipt with this field empty
	Table   string     `json:"table"` // id of the table
	Tool    string     `json:"tool"`
	Created time.Time  `json:"created"` // UTC
	Machine ep.Machine `json:"machine"` // that measured
	ABI     string     `json:"abi"`     // of its kernels
	Policy  string     `json:"policy"`  // how it measured
	Checks  []Check    `json:"checks"`
}

// Check is one row measured against the default under one routing. Gains are
// times of the default over times of the row's config, with 95 % intervals.
type Check struct {
	Key       table.Key `json:"key"`
	Tokens    int       `json:"tokens"`
	Routing   string    `json:"routing"` // spec
	Config    ep.Config `json:"config"`
	Clock     string    `json:"clock"`
	Rounds    int       `json:"rounds"`
	AA        float64   `json:"aa"` // spread of the default against itself here
	Gain      float64   `json:"gain"`
	GainLo    float64   `json:"gain_lo"`
	GainHi    float64   `json:"gain_hi"`
	Claimed   float64   `json:"claimed"` // the row's own evidence
	ClaimedLo float64   `json:"claimed_lo"`
	ClaimedHi float64   `json:"claimed_hi"`
	Verdict   Verdict   `json:"verdict"`
	Reason    string    `json:"reason"` // of every verdict but Holds
}

// Verdict is what a check says of its row.
type Verdict string

const (
	Holds     Verdict = "holds"     // faster than the default, as claimed
	Shrunk    Verdict = "shrunk"    // faster than the default, by less than claimed
	Undecided Verdict = "undecided" // neither faster nor slower for certain
	Slower    Verdict = "slower"    // the default is faster
	Failed    Verdict = "failed"    // it does not run here, or its answer is wrong
)

// Worst is the gravest verdict of the receipt, Holds when it has no checks.
func (r *Receipt) Worst() Verdict {
	worst := 0
	order := []Verdict{Holds, Shrunk, Undecided, Slower, Failed}
	for _, c := range r.Checks {
		for i, v := range order {
			if c.Verdict == v {
				worst = max(worst, i)
			}
		}
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
