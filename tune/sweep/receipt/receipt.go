// Package receipt measures rows of a tuned table again, on the machine that is to
// use them, and records what each row's claim is worth there.
package receipt

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"slices"
	"time"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/table"
)

// Schema is the version of a receipt file.
const Schema = 2

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

// Check is one row measured against the default under one routing.
type Check struct {
	Key     table.Key       `json:"key"`
	Tokens  int             `json:"tokens"`
	Routing string          `json:"routing"` // spec
	Config  ep.Config       `json:"config"`
	Clock   string          `json:"clock"`
	Rounds  int             `json:"rounds"`
	Band    record.Band     `json:"band"`
	Gain    record.Interval `json:"gain"`    // the default's time over the row's, here
	Claimed record.Interval `json:"claimed"` // the same by the row's evidence
	Verdict record.Verdict  `json:"verdict"` // how the row compares with the default, here
	Claim   Claim           `json:"claim"`
	Reason  string          `json:"reason"` // of every claim that does not hold
}

// Claim says what became of a row's claim.
type Claim string

const (
	Holds     Claim = "holds"     // as fast as claimed
	Shrunk    Claim = "shrunk"    // not slower than the default, but less is gained than claimed
	Undecided Claim = "undecided" // neither faster nor slower for certain
	Slower    Claim = "slower"    // the default is faster
	Failed    Claim = "failed"    // it does not run here, or its answer is wrong
)

// Worst is the gravest claim of the receipt, Holds when it has no checks.
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
