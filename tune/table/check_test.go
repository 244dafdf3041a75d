package table

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

func TestValidateNamesTheField(t *testing.T) {
	type edit func(*Table, *Row, *Evidence)
	berlin := time.FixedZone("CET", 3600)
	for want, change := range map[string]edit{
		"schema: 1, this version reads 2":                                              func(t *Table, _ *Row, _ *Evidence) { t.Schema = 1 },
		`header.tool: "\n" is not printable text`:                                      func(t *Table, _ *Row, _ *Evidence) { t.Header.Tool = "\n" },
		"header.machine.backend: predicted: a table holds measurements only":           func(t *Table, _ *Row, _ *Evidence) { t.Header.Machine.Backend = ep.Predicted },
		`header.abi: "\u200b" is not`:                                                  func(t *Table, _ *Row, _ *Evidence) { t.Header.ABI = "\u200b" },
		`header.space: "\x00" is not`:                                                  func(t *Table, _ *Row, _ *Evidence) { t.Header.Space = "\x00" },
		`header.policy: "�" is not`:                                                    func(t *Table, _ *Row, _ *Evidence) { t.Header.Policy = "�" },
		`header.trial_log: "\x1b" is not`:                                              func(t *Table, _ *Row, _ *Evidence) { t.Header.TrialLog = "\x1b" },
		`header.machine.backend: "\a" is not`:                                          func(t *Table, _ *Row, _ *Evidence) { t.Header.Machine.Backend = "\a" },
		`header.machine.name: "\a" is not`:                                             func(t *Table, _ *Row, _ *Evidence) { t.Header.Machine.Name = "\a" },
		`header.machine.pci_id: "\a" is not`:                                           func(t *Table, _ *Row, _ *Evidence) { t.Header.Machine.PCIID = "\a" },
		`header.machine.arch: "\a" is not`:                                             func(t *Table, _ *Row, _ *Evidence) { t.Header.Machine.Arch = "\a" },
		`header.machine.link: "\a" is not`:                                             func(t *Table, _ *Row, _ *Evidence) { t.Header.Machine.Link = "\a" },
		`header.machine.driver: "\a" is not`:                                           func(t *Table, _ *Row, _ *Evidence) { t.Header.Machine.Driver = "\a" },
		`header.machine.cuda: "\a" is not`:                                             func(t *Table, _ *Row, _ *Evidence) { t.Header.Machine.CUDA = "\a" },
		"header.machine.backend: is empty":                                             func(t *Table, _ *Row, _ *Evidence) { t.Header.Machine.Backend = "" },
		"header.aa: -0.1 is negative":                                                  func(t *Table, _ *Row, _ *Evidence) { t.Header.AA = -0.1 },
		"header.band: -0.1 is negative":                                                func(t *Table, _ *Row, _ *Evidence) { t.Header.Band = -0.1 },
		"header.max_sms: -1 is negative":                                               func(t *Table, _ *Row, _ *Evidence) { t.Header.MaxSMs = -1 },
		"header.fallback: routing is listed twice":                                     func(t *Table, _ *Row, _ *Evidence) { t.Header.Fallback = []string{"routing", "routing"} },
		`header.fallback: "op" must be equal in the row and in the look-up, so it can`: func(t *Table, _ *Row, _ *Evidence) { t.Header.Fallback = []string{"op"} },
		"header.created: 2026-01-31T12:00:00+01:00 is":                                 func(t *Table, _ *Row, _ *Evidence) { t.Header.Created = time.Date(2026, 1, 31, 12, 0, 0, 0, berlin) },
		"header.created: 2026-01-31T12:00:00.5Z is":                                    func(t *Table, _ *Row, _ *Evidence) { t.Header.Created = t.Header.Created.Add(500 * time.Millisecond) },
		"rows[0].key.experts: 256 is not a multiple of 7 ranks":                        func(_ *Table, r *Row, _ *Evidence) { r.Key.Ranks = 7 },
		`rows[0].key.routing: unknown "odd"`:                                           func(_ *Table, r *Row, _ *Evidence) { r.Key.Routing = "odd" },
		"rows[0].config.values: the default config must have":                          func(_ *Table, r *Row, _ *Evidence) { r.Config.Kernel = "" },
		"rows[0].config: has no kernel":                                                func(_ *Table, r *Row, _ *Evidence) { r.Config = ep.Config{} },
		"rows[0].lo: -1 is negative":                                                   func(_ *Table, r *Row, _ *Evidence) { r.Lo = -1 },
		"rows[0].lo: 9 is above hi 8":                                                  func(_ *Table, r *Row, _ *Evidence) { r.Lo = 9 },
		"rows[0].hi: 1048577 is above 1048576":                                         func(_ *Table, r *Row, _ *Evidence) { r.Hi = ep.MaxTokens + 1 },
		"rows[0].evidence.median: -1 is not a number":                                  func(_ *Table, _ *Row, e *Evidence) { e.Median = -1 },
		"rows[0].evidence.p10: NaN is not a number":                                    func(_ *Table, _ *Row, e *Evidence) { e.P10 = math.NaN() },
		"rows[0].evidence.p90: +Inf is not a number":                                   func(_ *Table, _ *Row, e *Evidence) { e.P90 = math.Inf(1) },
		"rows[0].evidence.gain: -1 is not a number":                                    func(_ *Table, _ *Row, e *Evidence) { e.Gain = -1 },
		"rows[0].evidence.gain_low: -1 is not a number":                                func(_ *Table, _ *Row, e *Evidence) { e.GainLow = -1 },
		"rows[0].evidence.gain_high: -1 is not a number":                               func(_ *Table, _ *Row, e *Evidence) { e.GainHigh = -1 },
		"rows[0].evidence.regret: -1 is not a number":                                  func(_ *Table, _ *Row, e *Evidence) { e.Regret = -1 },
		"rows[0].evidence.max_err: -1 is not a number":                                 func(_ *Table, _ *Row, e *Evidence) { e.MaxErr = -1 },
		"rows[0].evidence.rounds: -1 is not a number":                                  func(_ *Table, _ *Row, e *Evidence) { e.Rounds = -1 },
		"rows[0].evidence.tried: -1 is not a number":                                   func(_ *Table, _ *Row, e *Evidence) { e.Tried = -1 },
		"rows[0].evidence.legal: -1 is not a number":                                   func(_ *Table, _ *Row, e *Evidence) { e.Legal = -1 },
		"rows[0].evidence.ties: -1 is not a number":                                    func(_ *Table, _ *Row, e *Evidence) { e.Ties = -1 },
		"rows[0].evidence.tokens: must rise within 0 to 1048576; -1":                   func(_ *Table, _ *Row, e *Evidence) { e.Tokens = []int{-1} },
		"rows[0].evidence.between: must rise and list only measured":                   func(_ *Table, _ *Row, e *Evidence) { e.Tokens, e.Between = []int{1, 8}, []int{2} },
		"rows[0].evidence.between: must rise and list only measured ":                  func(_ *Table, _ *Row, e *Evidence) { e.Tokens, e.Between = []int{1, 8}, []int{8, 1} },
		"rows[0].evidence.tokens: must rise within 0 to 1048576; 8":                    func(_ *Table, _ *Row, e *Evidence) { e.Tokens = []int{8, 8} },
		"rows[0].evidence.tokens: must rise within 0 to 1048576; 1048577":              func(_ *Table, _ *Row, e *Evidence) { e.Tokens = []int{ep.MaxTokens + 1} },
		"rows[0].evidence.timed_at: 7 is not one of":                                   func(_ *Table, _ *Row, e *Evidence) { e.TimedAt = 7 },
		`rows[0].evidence.routings: "\t" is not`:                                       func(_ *Table, _ *Row, e *Evidence) { e.Routings = []string{"uniform", "\t"} },
		`rows[0].evidence.clock: "\t" is not`:                                          func(_ *Table, _ *Row, e *Evidence) { e.Clock = "\t" },
		"rows[0].evidence.date: 2026-01-31T12:00:00.5Z is":                             func(_ *Table, _ *Row, e *Evidence) { e.Date = e.Date.Add(500 * time.Millisecond) },
		"rows[1].lo: tokens 8 to 64 overlap rows[0], which covers 0 to":                func(t *Table, _ *Row, _ *Evidence) { t.Rows[1].Lo = 8 },
		"rows[1].lo: tokens 0 to 0 overlap rows[0], which covers 0 to":                 func(t *Table, _ *Row, _ *Evidence) { t.Rows[1].Lo, t.Rows[1].Hi = 0, 0 },
	} {
		tab := testTable(testRow(ep.Even, 0, 8, 128), testRow(ep.Even, 9, 64, 512))
		change(tab, &tab.Rows[0], &tab.Rows[0].Evidence)
		if err := tab.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

func TestValidateTakesTheBounds(t *testing.T) {
	first, last := testRow(ep.Even, 0, 0, 128), testRow(ep.Even, 1, ep.MaxTokens, 128)
	first.Evidence.Tokens, last.Evidence.Tokens = []int{0}, []int{1, ep.MaxTokens}
	first.Evidence = Evidence{Date: first.Evidence.Date, Tokens: first.Evidence.Tokens}
	tab := testTable(last, first)
	tab.Header.AA, tab.Header.Band, tab.Header.MaxSMs, tab.Header.Fallback = 0, 0, 0, FallbackFields()
	if err := tab.Validate(); err != nil {
		t.Error(err)
	}
	if tab.Rows[0].Lo != 1 {
		t.Error("Validate sorts the rows")
	}
}
