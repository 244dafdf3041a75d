package table

import (
	"fmt"
	"math"
	"strings"
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
	Tool     string     `json:"tool"`      // epbench version that wrote the table
	Created  time.Time  `json:"created"`   // UTC, whole seconds
	ABI      ep.ABI     `json:"abi"`       // latest build of each kernel in the rows
	Space    string     `json:"space"`     // fingerprint of the search space
	Machine  ep.Machine `json:"machine"`   // hardware that was measured
	Policy   string     `json:"policy"`    // measurement policy
	AA       float64    `json:"aa"`        // relative difference between two measurements of the default
	TrialLog string     `json:"trial_log"` // sha256 of trials.jsonl
	Fallback []string   `json:"fallback"`  // fields of Key in which a row may differ from a query
	Edited   bool       `json:"edited"`    // loaded although the id did not match

	// Band is the relative difference up to which two times count as equal. 0 means unknown.
	Band float64 `json:"band,omitempty"`

	// Receipts lists the ids of verifications, sorted. A verification measures rows of the table again. The interval of
	// a row's gain covers all gains that verifications measured for the row.
	Receipts []string `json:"receipts,omitempty"`

	// MaxSMs is the most SMs that a config or the default may take. 0 means no bound.
	MaxSMs int `json:"max_sms,omitempty"`

	// Hooks lists the kernel parameters that change the result, as name=value,name=value. Callers must set the same
	// values.
	Hooks string `json:"hooks,omitempty"`
}

// IsDefault reports whether a row launches the default config. Without MaxSMs, the field Default says so. With MaxSMs,
// the default is a config within this bound. A row launches it if the gain is 1 and the row is no compromise of several
// routings.
func (h Header) IsDefault(r Row) bool {
	e := r.Evidence
	return r.Default || h.MaxSMs > 0 && e.Gain == 1 && e.GainLow == 1 && e.GainHigh == 1 && !e.isCompromise()
}

// GainInterval returns the 95 % interval of a row's gain, with the spread between sessions (docs/intervals.md). The
// measured interval lacks this spread if the row has one session, or if its sessions used the same memory addresses.
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

// ownMemoryProtocol names the first record.Protocol that gives every session memory addresses of its own.
const ownMemoryProtocol = 1

// Certain reports whether a row's evidence supports its choice. Rows of the default and rows
// for several routings are always certain. Any other row needs a gain interval above 1.
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
	Hi       int       `json:"hi"`      // largest token count covered
	Config   ep.Config `json:"config"`  // the zero Config if the default won
	Default  bool      `json:"default"` // no config is faster than the default
	Evidence Evidence  `json:"evidence"`

	// ABI is the build of the row's kernels. "" means the build in the header.
	ABI ep.ABI `json:"abi,omitempty"`
}

// Build returns the build of a row's kernels.
func (h Header) Build(r Row) ep.ABI {
	if r.ABI != "" {
		return r.ABI
	}
	return h.ABI.For(r.Config)
}

// Midpoint returns the geometric mean of two token counts, rounded down. If two neighboring
// rows were measured at `a` and `b` tokens, the first row ends at the midpoint.
func Midpoint(a, b int) int { return int(math.Sqrt(float64(max(a, 1)) * float64(b))) }

// Evidence holds the measurements from which a row was made. Times are seconds of one call on the slowest rank. If
// several token counts or routings were measured, times and gain are from the case with the smallest gain.
type Evidence struct {
	Clock    string    `json:"clock"`     // clock: chain, span, event or wall
	Median   float64   `json:"median"`    // median over the rounds
	P10      float64   `json:"p10"`       // tenth percentile
	P90      float64   `json:"p90"`       // ninetieth percentile
	Rounds   int       `json:"rounds"`    // timed rounds; those of the search do not count
	Gain     float64   `json:"gain"`      // the default's time divided by the config's
	GainLow  float64   `json:"gain_low"`  // lower end of Gain's 95 % interval
	GainHigh float64   `json:"gain_high"` // upper end of this interval
	Tried    int       `json:"tried"`     // configs measured
	Ties     int       `json:"ties"`      // configs within the band of the fastest config
	Regret   float64   `json:"regret"`    // config's time / best config's time - 1; the largest over the routings
	Routings []string  `json:"routings"`  // routings measured
	Tokens   []int     `json:"tokens"`    // token counts measured, rising
	Complete bool      `json:"complete"`  // every legal config was measured
	Date     time.Time `json:"date"`      // date of the measurement, UTC, whole seconds

	// Legal is the number of legal configs in the search space. 0 means unknown.
	Legal int `json:"legal,omitempty"`

	// Between lists the token counts at which there was no search. Only the default and winners of other token
	// counts were measured there. Tokens lists these counts too. The order is rising.
	Between []int `json:"between,omitempty"`

	// TimedAt is the token count at which times and gain were measured. If it is 0 and Tokens has one count, they were
	// measured at that count. If it is 0 and Tokens has several, the count is unknown.
	TimedAt int `json:"timed_at,omitempty"`

	// MaxErr is the largest error against the oracle, divided by the largest magnitude in the same output row.
	MaxErr float64 `json:"max_err,omitempty"`

	// Sessions counts the sessions from which times and gain come. 0 means one.
	Sessions int `json:"sessions,omitempty"`

	// Protocol is the revision of the rules for measuring, see record.Protocol.
	Protocol int `json:"protocol,omitempty"`

	// Beside names the matrix product that ran at the same time, see ep.Product. Median, P10 and P90 are then the
	// time by which the calls delay the product.
	Beside string `json:"beside,omitempty"`

	// Reason is set if the measured gain is uncertain. Gain is then 1. Reason is "kept" if the row launches the
	// default, or "compromise of N routings" if the config was chosen for N routings together.
	Reason string `json:"reason,omitempty"`
}

// compromiseOf is part of the table format: IsDefault compares it with the reasons of tables on disk.
const compromiseOf = "compromise of "

// Compromise returns the Reason of a config that was chosen for several routings together.
func Compromise(routings int) string { return fmt.Sprintf("%s%d routings", compromiseOf, routings) }

func (e Evidence) isCompromise() bool { return strings.HasPrefix(e.Reason, compromiseOf) }

// At returns the token count at which times and gain were measured. ok is false if it is unknown.
func (e Evidence) At() (tokens int, ok bool) {
	if len(e.Tokens) == 1 {
		return e.Tokens[0], true
	}
	return e.TimedAt, e.TimedAt > 0
}
