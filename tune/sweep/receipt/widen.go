package receipt

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

// maxBytes bounds a receipt file. 10,000 checks take about 12 MB.
const maxBytes = 64 << 20

// Read reads a receipt. It refuses unknown fields, another schema, and an id that does not match.
func Read(in io.Reader) (*Receipt, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxBytes {
		return nil, fmt.Errorf("the file is larger than %d MiB; verify fewer rows at a time", maxBytes>>20)
	}
	r := &Receipt{}
	if err := jsonv2.Unmarshal(text, r, jsonv2.RejectUnknownMembers(true), jsontext.AllowDuplicateNames(false)); err != nil {
		return nil, fmt.Errorf("not a receipt of table verify: %w", err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("schema: %d, this build reads %d; verify the table again", r.Schema, Schema)
	}
	bare := *r
	bare.ID = ""
	if text, err = json.MarshalIndent(&bare, "", "  "); err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != r.ID {
		return nil, fmt.Errorf("id: the content does not hash to %.12q; it was edited after it was written", r.ID)
	}
	return r, nil
}

// An Effect says how a check changed its row.
type Effect string

const (
	Covered Effect = "covered" // the interval covers the measured gain
	Widened Effect = "widened" // the interval grew to cover the gain
	Removed Effect = "removed" // slower than the default, failed, or uncertain
)

// A Change is a check, with the evidence of its row before and after.
type Change struct {
	Check  Check
	Effect Effect
	Before table.Evidence
	After  table.Evidence
}

// Widen returns a copy of the table in which each row's interval also covers the gains that the row's checks measured.
// It leaves out rows that were slower than the default, failed, or are no longer certain (table.Header.Certain). A
// receipt of another machine is an error. A check of another kernel revision changes nothing. A receipt that the table
// already lists changes nothing either.
func Widen(t *table.Table, receipts []*Receipt) (*table.Table, []Change, error) {
	out := *t
	out.Rows, out.Header.Receipts = slices.Clone(t.Rows), slices.Clone(t.Header.Receipts)
	receipts = slices.SortedFunc(slices.Values(receipts), func(a, b *Receipt) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	var changes []Change
	for _, r := range receipts {
		if r.Machine.Key() != t.Header.Machine.Key() {
			return nil, nil, fmt.Errorf("machine: the receipt is of %s, the table is for %s", r.Machine.Key(), t.Header.Machine.Key())
		}
		for _, check := range r.Checks {
			i := slices.IndexFunc(out.Rows, func(row table.Row) bool { return r.checked(t.Header, row, check) })
			if i < 0 {
				continue // the row is in another table, or was removed already
			}
			change := check.widen(out.Rows[i].Evidence)
			if widened := out.Rows[i]; change.Effect == Widened {
				if widened.Evidence = change.After; !t.Header.Certain(widened) {
					change.Effect = Removed
				}
			}
			if changes = append(changes, change); change.Effect == Removed {
				out.Rows = slices.Delete(out.Rows, i, i+1)
			} else {
				out.Rows[i].Evidence = change.After
				r.certify(&out, i, check)
			}
		}
		out.Header.Receipts = append(out.Header.Receipts, r.ID)
	}
	slices.Sort(out.Header.Receipts)
	out.Header.Receipts = slices.Compact(out.Header.Receipts)
	return &out, changes, out.Seal()
}

// certify writes the receipt's protocol and build into row i, if the check holds and the receipt is newer than the row.
func (r *Receipt) certify(t *table.Table, i int, c Check) {
	row := &t.Rows[i]
	if c.Claim != Holds || !r.Created.After(row.Evidence.Date) {
		return
	}
	row.Evidence.Protocol = max(row.Evidence.Protocol, r.Protocol)
	if r.ABI.Serves(t.Header.Build(*row)) {
		return
	}
	stateBuilds(t)
	row.ABI = r.ABI.For(c.launched())
	if r.Created.After(t.Header.Created) {
		t.Header.ABI = t.Header.ABI.Overlay(row.ABI)
	} else {
		t.Header.ABI = row.ABI.Overlay(t.Header.ABI)
	}
}

// stateBuilds writes each row's build into the row. A row without a build has the header's build, which is about to
// change.
func stateBuilds(t *table.Table) {
	for i := range t.Rows {
		t.Rows[i].ABI = t.Header.Build(t.Rows[i])
	}
}

func (c Check) launched() ep.Config {
	if c.Launched.IsDefault() {
		return c.Config
	}
	return c.Launched
}

// checked reports whether a check measured this row, with kernels of the row's revision.
func (r *Receipt) checked(h table.Header, row table.Row, c Check) bool {
	return row.Key == c.Key && row.Lo <= c.Tokens && c.Tokens <= row.Hi && !row.Default &&
		row.Config.Key() == c.Config.Key() && r.ABI.Accepts(h.Build(row))
}

func (c Check) widen(e table.Evidence) Change {
	change := Change{c, Covered, e, e}
	switch {
	case c.Claim == Slower || c.Claim == Failed:
		change.Effect = Removed
	case c.Gain.Low > 0 && (c.Gain.Low < e.GainLow || c.Gain.High > e.GainHigh):
		change.Effect = Widened
		change.After.GainLow, change.After.GainHigh = min(e.GainLow, c.Gain.Low), max(e.GainHigh, c.Gain.High)
	}
	return change
}
