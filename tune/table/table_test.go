package table

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

var testMachine = ep.Machine{Backend: "cuda", Name: "NVIDIA H200", PCIID: "10de:2335", Arch: "sm_90",
	SMs: 132, Memory: 150 << 30, GPUs: 8, Link: "nvlink4x8", Driver: "580.65", CUDA: "13.0"}

func testKey(routing ep.Class) Key {
	return Key{Op: ep.Dispatch, Mode: ep.Graph, Ranks: 8, Nodes: 1, Hidden: 7168, Experts: 256, TopK: 8,
		Dispatch: ep.BF16, Combine: ep.BF16, Routing: routing}
}

func testRow(routing ep.Class, lo, hi, threads int) Row {
	c := ep.Config{Kernel: "direct"}.With("threads", ep.Value(strconv.Itoa(threads)))
	return Row{Key: testKey(routing), Lo: lo, Hi: hi, Config: c.With("mode", "fused"),
		Evidence: Evidence{Clock: "chain", Median: 25e-6, P10: 24e-6, P90: 27e-6, Rounds: 50,
			Gain: 1.1, GainLow: 1.08, GainHigh: 1.12, Tried: 40, Ties: 2,
			Routings: []string{"uniform"}, Tokens: slices.Compact([]int{lo, hi}), Complete: true,
			Date: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}}
}

func testTable(rows ...Row) *Table {
	return &Table{Schema: Schema, Rows: rows, Header: Header{Tool: "test", ABI: "abi1", Space: "space1",
		Created: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), Machine: testMachine, Policy: "race", AA: 0.004,
		TrialLog: "log1", Fallback: []string{"routing", "hidden"}}}
}

func encodeTable(t testing.TB, tab *Table) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := tab.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWriteReadWriteIsByteIdentical(t *testing.T) {
	tab := testTable(testRow(ep.Even, 9, 64, 512), testRow(ep.AllRoutings, 0, 64, 256), testRow(ep.Even, 0, 8, 128))
	keep := testRow(ep.HotRank, 0, 64, 0)
	keep.Default, keep.Config = true, ep.Config{}
	tab.Rows = append(tab.Rows, keep)
	first := encodeTable(t, tab)
	back, err := Load(bytes.NewReader(first))
	if err != nil {
		t.Fatal(err)
	}
	if second := encodeTable(t, back); !bytes.Equal(first, second) {
		t.Errorf("second writing differs:\n%s\n%s", first, second)
	}
	if back.Rows[0].Lo != 0 || back.Rows[0].Key.Routing != ep.Even {
		t.Errorf("rows are not sorted: first is %v %d", back.Rows[0].Key, back.Rows[0].Lo)
	}
}

// TestLoadNamesLineAndField makes one change in a valid table.
func TestLoadNamesLineAndField(t *testing.T) {
	good := string(encodeTable(t, testTable(testRow(ep.Even, 0, 8, 128), testRow(ep.Even, 9, 64, 512))))
	for _, c := range []struct{ name, old, new, want string }{
		{"schema", `"schema": 2`, `"schema": 3`, `line 2: schema: 3, this version reads 2; use the epbench that wrote the table, or sweep again`},
		{"old schema", `"schema": 2`, `"schema": 1`, `line 2: schema: 1, this version reads 2; use the epbench that wrote the table, or sweep again`},
		{"unknown", `"lo":0`, `"low":0`, `line 6: rows[0]: unknown field "low"`},
		{"twice", `"lo":0`, `"lo":0,"lo":0`, `line 6: rows[0]: field "lo" is given twice`},
		{"missing", `"lo":0,`, ``, `line 6: rows[0]: field "lo" is missing`},
		{"crossed", `"lo":9,"hi":64`, `"lo":65,"hi":64`, `line 7: rows[1].lo: 65 is above hi 64`},
		{"overlap", `"lo":9,"hi":64`, `"lo":8,"hi":64`, `line 7: rows[1].lo: tokens 8 to 64 overlap rows[0], which covers 0 to 8`},
		{"huge", `"lo":0`, `"lo":99999999999999999999`, `line 6: rows[0].lo: number 99999999999999999999 where int is needed`},
		{"fraction", `"hidden":7168`, `"hidden":7168.0`, `rows[0].key.hidden: number 7168.0 where int is needed`},
		{"float", `"median":0.000025`, `"median":1e999`, `rows[0].evidence.median: number 1e999 where float64 is needed`},
		{"negative", `"median":0.000025`, `"median":-1`, `rows[0].evidence.median: -1 is not a number from 0 up`},
		{"null", `"routings":["uniform"]`, `"routings":null`, `rows[0].evidence.routings: null where a value is needed`},
		{"deep", `"routings":["uniform"]`, `"routings":` + strings.Repeat("[", 100000), `line 6: rows[0].evidence.routings[0][0]`},
		{"bool", `"complete":true`, `"complete":1`, `rows[0].evidence.complete: number where bool is needed`},
		{"control", `"name":"NVIDIA H200"`, `"name":"\u001b[31m"`, `line 4: header.machine.name: "\x1b[31m" is not printable text`},
		{"fallback", `"fallback":["routing"`, `"fallback":["ranks"`, `line 4: header.fallback: "ranks" must be equal`},
		{"op", `"op":"dispatch"`, `"op":"send"`, `line 6: rows[0].key.op: unknown "send", use one of dispatch, combine, pair, activation`},
		{"class", `"routing":"even"`, `"routing":"odd"`, `line 6: rows[0].key.routing: unknown "odd", use one of even`},
		{"ranks", `"ranks":8`, `"ranks":7`, `rows[0].key.experts: 256 is not a multiple of 7 ranks`},
		{"param twice", `"threads":128`, `"threads":128,"threads":64`, `rows[0].config.values: field "threads" is given twice`},
		{"param", `"threads":128`, `"threads":{}`, `rows[0].config.values.threads: value: "{}" is neither`},
		{"kernel", `"kernel":"direct"`, `"kernel":""`, `rows[0].config.values: the default config must have no values`},
		{"after", "]\n}\n", "]\n}\n{}", `line 10: invalid character '{' after top-level value`},
		{"id", `"median":0.000025`, `"median":0.000024`, `it was edited after it was written`},
		{"time", `12:00:00Z`, `12:00:00+01:00`, `line 4: header.created: 2026-01-31T12:00:00+01:00 is not in UTC`},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := strings.Replace(good, c.old, c.new, 1)
			if bad == good {
				t.Fatalf("%s is not in the table", c.old)
			}
			_, err := Load(strings.NewReader(bad))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestLoadTruncated(t *testing.T) {
	good := encodeTable(t, testTable(testRow(ep.Even, 0, 8, 128)))
	for n := range len(good) - 1 {
		_, err := Load(bytes.NewReader(good[:n]))
		if err == nil || !strings.HasPrefix(err.Error(), "line ") {
			t.Fatalf("the first %d bytes load: %v", n, err)
		}
	}
}

func TestLoadBoundsTheFile(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 128 MB, for a minute under the race detector")
	}
	for size, want := range map[int]string{
		MaxTableBytes:     "line 1: unexpected end of JSON input",
		MaxTableBytes + 1: "the file is larger than 64 MiB; split the table by op or ranks",
	} {
		if _, err := Load(bytes.NewReader(bytes.Repeat([]byte(" "), size))); err == nil || err.Error() != want {
			t.Errorf("%d bytes: %v, want %s", size, err, want)
		}
	}
}

func TestEditedTableIsMarked(t *testing.T) {
	good := encodeTable(t, testTable(testRow(ep.Even, 0, 8, 128)))
	edited := bytes.Replace(good, []byte(`"threads":128`), []byte(`"threads":256`), 1)
	if _, err := Load(bytes.NewReader(edited)); err == nil {
		t.Fatal("an edited table loads")
	}
	tab, err := LoadEdited(bytes.NewReader(edited))
	if err != nil || !tab.Header.Edited {
		t.Fatalf("edited %v, err %v", tab.Header.Edited, err)
	}
	again, err := Load(bytes.NewReader(encodeTable(t, tab)))
	if err != nil || !again.Header.Edited {
		t.Errorf("the mark is lost on writing: %v, %v", again, err)
	}
	if clean, err := LoadEdited(bytes.NewReader(good)); err != nil || clean.Header.Edited {
		t.Errorf("an untouched table is marked: %v", err)
	}
}
