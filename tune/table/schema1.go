package table

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// Schema 1 had other names for some fields and values, and left out what is full
// precision. These types have its names; everything else is as in schema 2, so
// that Go converts all but the key by the shape of the types.

type table1 struct {
	Schema int     `json:"schema"`
	ID     string  `json:"id"`
	Header header1 `json:"header"`
	Rows   []row1  `json:"rows"`
}

type header1 struct {
	Tool     string     `json:"tool"`
	Created  time.Time  `json:"created"`
	ABI      string     `json:"abi"`
	Space    string     `json:"space"`
	Machine  ep.Machine `json:"machine"`
	Policy   string     `json:"policy"`
	AA       float64    `json:"aa"`
	TrialLog string     `json:"trial_log"`
	Fallback []string   `json:"relax"`
	Edited   bool       `json:"edited"`
	MaxSMs   int        `json:"max_sms,omitempty"`
}

type row1 struct {
	Key      key1      `json:"key"`
	Lo       int       `json:"lo"`
	Hi       int       `json:"hi"`
	Config   ep.Config `json:"config"`
	Default  bool      `json:"default"`
	Evidence evidence1 `json:"evidence"`
}

type key1 struct {
	Op           ep.Op    `json:"op"`
	Mode         ep.Mode  `json:"mode"`
	Ranks        int      `json:"ranks"`
	Nodes        int      `json:"nodes"`
	Hidden       int      `json:"hidden"`
	Experts      int      `json:"experts"`
	TopK         int      `json:"top_k"`
	Dispatch     ep.DType `json:"dispatch"`
	Combine      ep.DType `json:"combine"`
	SharedExpert bool     `json:"shared_expert"`
	SkipA2A      bool     `json:"skip_a2a"`
	Routing      ep.Class `json:"routing"`           // "any" for all routings
	Results      string   `json:"results,omitempty"` // "any" for reduced precision
}

type evidence1 struct {
	Clock    string    `json:"clock"`
	Median   float64   `json:"median"`
	P10      float64   `json:"p10"`
	P90      float64   `json:"p90"`
	Rounds   int       `json:"rounds"`
	Gain     float64   `json:"gain"`
	GainLow  float64   `json:"gain_lo"`
	GainHigh float64   `json:"gain_hi"`
	Tried    int       `json:"candidates"`
	Ties     int       `json:"ties"`
	Regret   float64   `json:"regret"`
	Routings []string  `json:"routings"`
	Tokens   []int     `json:"tokens"`
	Complete bool      `json:"complete"`
	Date     time.Time `json:"date"`
	Legal    int       `json:"-"`
	MaxErr   float64   `json:"max_err,omitempty"`
}

func (h header1) Validate() error   { return Header(h).Validate() }
func (r row1) Validate() error      { return r.upgrade().Validate() }
func (e evidence1) Validate() error { return Evidence(e).Validate() }

func (k key1) Validate() error {
	if k.Results != "" && k.Results != "any" {
		return fmt.Errorf("results: unknown %q, schema 1 has only any", k.Results)
	}
	if k.Routing == ep.AllRoutings {
		return fmt.Errorf("routing: schema 1 calls it any")
	}
	return k.upgrade().Validate()
}

func (k key1) upgrade() Key {
	out := Key{
		Op: k.Op, Mode: k.Mode, Ranks: k.Ranks, Nodes: k.Nodes,
		Hidden: k.Hidden, Experts: k.Experts, TopK: k.TopK,
		Dispatch: k.Dispatch, Combine: k.Combine,
		SharedExpert: k.SharedExpert, SkipA2A: k.SkipA2A, Routing: k.Routing,
	}
	if k.Routing == "any" {
		out.Routing = ep.AllRoutings
	}
	if k.Results == "any" {
		out.Precision = ep.Reduced
	}
	return out
}

func (r row1) upgrade() Row {
	return Row{Key: r.Key.upgrade(), Lo: r.Lo, Hi: r.Hi, Config: r.Config, Default: r.Default, Evidence: Evidence(r.Evidence)}
}

// table1 reads a table of schema 1.
func (l *loader) table1() (*Table, error) {
	var old table1
	if err := l.value(reflect.ValueOf(&old).Elem()); err != nil {
		return nil, err
	}
	t := &Table{Schema: Schema, ID: old.ID, Header: Header(old.Header), Rows: make([]Row, len(old.Rows))}
	for i, r := range old.Rows {
		t.Rows[i] = r.upgrade()
	}
	return t, nil
}

// hash1 is the id of a file of schema 1: the sha256 of its bytes with an empty id.
// A file that was not written by epbench byte for byte counts as edited.
func hash1(data []byte, id string) string {
	sum := sha256.Sum256(bytes.Replace(data, []byte(`"`+id+`"`), []byte(`""`), 1))
	return hex.EncodeToString(sum[:])
}
