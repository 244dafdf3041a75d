package table

import (
	"math"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// Schema is the version of the table format that this package writes. It reads
// schema 1 too.
const Schema = 2

// Table is the shipped artefact: tuned configurations with the evidence for
// each, valid on one kind of machine and for one build of the kernels.
type Table struct {
	Schema int    `json:"schema"`
	ID     string `json:"id"` // sha256 of the canonical JSON with this field empty
	Header Header `json:"header"`
	Rows   []Row  `json:"rows"`
}

// Header says where a table came from and where it may be used.
type Header struct {
	Tool     string     `json:"tool"`      // version of epbench that wrote it
	Created  time.Time  `json:"created"`   // UTC, whole seconds
	ABI      string     `json:"abi"`       // hash of the kernels' sources and parameter lists
	Space    string     `json:"space"`     // fingerprint of the search space
	Machine  ep.Machine `json:"machine"`   // hardware the evidence was measured on
	Policy   string     `json:"policy"`    // measurement policy, canonical spelling
	AA       float64    `json:"aa"`        // spread of the default against itself, as a ratio minus one
	TrialLog string     `json:"trial_log"` // sha256 of trials.jsonl
	Fallback []string   `json:"fallback"`  // key fields that may differ when no row matches exactly, in this order
	Edited   bool       `json:"edited"`    // loaded although its hash did not match

	// MaxSMs is what no config of the table exceeds, the default that its gains are
	// over included; 0 is no bound.
	MaxSMs int `json:"max_sms,omitempty"`
}

// IsDefault reports whether a row of the table says what the default is. Where SMs
// are bounded such a row spells it out: a runtime's default knows no bound.
func (h Header) IsDefault(r Row) bool {
	e := r.Evidence
	return r.Default || h.MaxSMs > 0 && e.Gain == 1 && e.GainLow == 1 && e.GainHigh == 1
}

// Row is one tuned answer for an interval of token counts.
type Row struct {
	Key      Key       `json:"key"`
	Lo       int       `json:"lo"`      // smallest token count covered
	Hi       int       `json:"hi"`      // largest, inclusive
	Config   ep.Config `json:"config"`  // the default config where the default won
	Default  bool      `json:"default"` // the default is at least as good: use it, knowingly
	Evidence Evidence  `json:"evidence"`
}

// Midpoint is the last token count of a row measured at a where the next is
// measured at b: the geometric mean, rounded down.
func Midpoint(a, b int) int { return int(math.Sqrt(float64(max(a, 1)) * float64(b))) }

// Evidence is why a row says what it says. Times are seconds of one call, max
// over ranks per round, then the median over rounds.
type Evidence struct {
	Clock    string    `json:"clock"`     // chain, span, event or wall
	Median   float64   `json:"median"`    // of the chosen config
	P10      float64   `json:"p10"`       // of the chosen config
	P90      float64   `json:"p90"`       // of the chosen config
	Rounds   int       `json:"rounds"`    // fresh confirmation rounds behind the median
	Gain     float64   `json:"gain"`      // time of default / time of config, 1 when equal
	GainLow  float64   `json:"gain_low"`  // lower end of Gain's 95 % bootstrap interval
	GainHigh float64   `json:"gain_high"` // upper end
	Tried    int       `json:"tried"`     // configs measured
	Ties     int       `json:"ties"`      // within the tie band of the fastest
	Regret   float64   `json:"regret"`    // worst loss over routings, minimax rows only
	Routings []string  `json:"routings"`  // routing specs measured
	Tokens   []int     `json:"tokens"`    // token counts measured, ends of the interval included
	Complete bool      `json:"complete"`  // the whole legal space was covered
	Date     time.Time `json:"date"`      // when it was measured

	// Legal is the number of legal points in the search space; 0 is unknown.
	Legal int `json:"legal,omitempty"`

	// MaxErr is the largest error seen against the oracle, relative to the
	// row's largest magnitude, as a ratio.
	MaxErr float64 `json:"max_err,omitempty"`
}
