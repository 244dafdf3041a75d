package table

import (
	"math"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// Schema is the version of the table format.
const Schema = 2

// Table holds tuned configs with the evidence for each.
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
	ABI      ep.ABI     `json:"abi"`       // latest build of each kernel that rows name
	Space    string     `json:"space"`     // fingerprint of the search space
	Machine  ep.Machine `json:"machine"`   // hardware on which the evidence was measured
	Policy   string     `json:"policy"`    // spelling of the measurement policy
	AA       float64    `json:"aa"`        // A/A spread: by how much the default differs from itself, as a ratio minus one
	TrialLog string     `json:"trial_log"` // sha256 of trials.jsonl
	Fallback []string   `json:"fallback"`  // key fields that may differ if no row matches exactly, in this order
	Edited   bool       `json:"edited"`    // loaded although its hash did not match

	// Band is the policy's band, a ratio minus one: a smaller difference of times counts as none. 0
	// is unknown.
	Band float64 `json:"band,omitempty"`

	// Receipts lists the ids of later verifications whose gains were taken into the rows'
	// intervals, sorted.
	Receipts []string `json:"receipts,omitempty"`

	// MaxSMs is the most SMs that a config or the default may take; 0 is no bound.
	MaxSMs int `json:"max_sms,omitempty"`

	// Hooks lists the parameters of class kernels.Hook of every row's config and the default, as
	// name=value,name=value; "" is none. A hook changes the result, so a caller must set the same
	// values.
	Hooks string `json:"hooks,omitempty"`
}

// IsDefault reports whether a row launches the default. With a bound on SMs the row names the
// default's config.
func (h Header) IsDefault(r Row) bool {
	e := r.Evidence
	return r.Default || h.MaxSMs > 0 && e.Gain == 1 && e.GainLow == 1 && e.GainHigh == 1
}

// GainInterval returns the 95 % interval of a row's gain. For one session it adds the spread
// between sessions (docs/intervals.md). Sessions of an older protocol count as one, because they
// could share memory addresses.
func (h Header) GainInterval(r Row) (low, high float64) {
	e := r.Evidence
	if e.Sessions > 1 && e.Protocol >= ownMemoryProtocol || e.GainLow == e.GainHigh || e.GainLow <= 0 {
		return e.GainLow, e.GainHigh
	}
	const normal95 = 1.96
	between := normal95 * h.Machine.SessionSpread()
	low = e.Gain * math.Exp(-math.Hypot(math.Log(e.Gain/e.GainLow), between))
	return low, e.Gain * math.Exp(math.Hypot(math.Log(e.GainHigh/e.Gain), between))
}

// ownMemoryProtocol is the first record.Protocol in which every session has other memory addresses.
const ownMemoryProtocol = 1

// Certain reports whether a row's evidence is sufficient for its choice. A gain needs an interval
// above 1. The default and rows of several routings need none.
func (h Header) Certain(r Row) bool {
	low, _ := h.GainInterval(r)
	return h.IsDefault(r) || r.OfSeveral() || low > 1
}

func (r Row) OfSeveral() bool {
	return r.Key.Routing == ep.AllRoutings || len(r.Evidence.Routings) > 1
}

// Row is one answer: the config for a key and an interval of token counts.
type Row struct {
	Key      Key       `json:"key"`
	Lo       int       `json:"lo"`      // smallest token count covered
	Hi       int       `json:"hi"`      // largest, inclusive
	Config   ep.Config `json:"config"`  // the zero Config if the default won
	Default  bool      `json:"default"` // the default was measured and is at least as fast
	Evidence Evidence  `json:"evidence"`

	// ABI is the build of the row's kernels, or of the default's; "" means the build in the header.
	ABI ep.ABI `json:"abi,omitempty"`
}

// Build returns the build of a row's kernels.
func (h Header) Build(r Row) ep.ABI {
	if r.ABI != "" {
		return r.ABI
	}
	return h.ABI.For(r.Config)
}

// Midpoint returns the last token count of a row that was measured at `a` tokens if the next was at
// `b`: their geometric mean, rounded down.
func Midpoint(a, b int) int { return int(math.Sqrt(float64(max(a, 1)) * float64(b))) }

// Evidence holds the measurements from which a row was made. Times are seconds of one call: the
// slowest rank of each round, then the median over rounds. Of several cases, the one with the least
// gain counts.
type Evidence struct {
	Clock    string    `json:"clock"`     // how it was timed: chain, span, event or wall
	Median   float64   `json:"median"`    // median time of the row's config
	P10      float64   `json:"p10"`       // tenth percentile
	P90      float64   `json:"p90"`       // ninetieth percentile
	Rounds   int       `json:"rounds"`    // rounds of the median, without those of the search
	Gain     float64   `json:"gain"`      // the default's time divided by the config's, 1 if they are equal
	GainLow  float64   `json:"gain_low"`  // lower end of Gain's 95 % interval
	GainHigh float64   `json:"gain_high"` // upper end of this interval
	Tried    int       `json:"tried"`     // configs measured
	Ties     int       `json:"ties"`      // configs of the last comparison within the band of the fastest
	Regret   float64   `json:"regret"`    // largest loss of a row for all routings against a routing's best config, as a ratio minus one
	Routings []string  `json:"routings"`  // routings measured
	Tokens   []int     `json:"tokens"`    // token counts measured, rising
	Complete bool      `json:"complete"`  // every legal point of the space was measured
	Date     time.Time `json:"date"`      // when it was measured, UTC, whole seconds

	// Legal is the number of legal points of the search space; 0 is unknown.
	Legal int `json:"legal,omitempty"`

	// Between lists those of Tokens that were only timed, between two searched counts, in rising
	// order.
	Between []int `json:"between,omitempty"`

	// TimedAt is the token count of the times and the gain; 0 if Tokens lists one count, or if it
	// is unknown.
	TimedAt int `json:"timed_at,omitempty"`

	// MaxErr is the largest error against the oracle, divided by the largest magnitude in its
	// output row.
	MaxErr float64 `json:"max_err,omitempty"`

	// Sessions counts the sessions of the times and the gain; 0 means one.
	Sessions int `json:"sessions,omitempty"`

	// Protocol is the revision of the way of measuring, see record.Protocol. 0 is the protocol up
	// to 2026-11-25.
	Protocol int `json:"protocol,omitempty"`

	// Beside names the matrix product that ran at the same time, see ep.Product; "" for none. The
	// times are then what the calls add to it.
	Beside string `json:"beside,omitempty"`

	// Reason says why the row is in the table with an uncertain gain, written as 1: "kept" for the
	// default, else "compromise of N routings".
	Reason string `json:"reason,omitempty"`
}

// At returns the token count of the times and the gain, ok false if unknown.
func (e Evidence) At() (tokens int, ok bool) {
	if len(e.Tokens) == 1 {
		return e.Tokens[0], true
	}
	return e.TimedAt, e.TimedAt > 0
}
