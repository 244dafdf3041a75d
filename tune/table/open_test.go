package table

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/testfile"
)

func writeTable(t *testing.T, path string, rows ...Row) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	testfile.Write(t, path, encodeTable(t, testTable(rows...)))
}

func TestOpenLayers(t *testing.T) {
	dir := t.TempDir()
	l := Locations{System: filepath.Join(dir, "system"), User: filepath.Join(dir, "user"), File: filepath.Join(dir, "mine.json"),
		Embedded: fstest.MapFS{"h200.json": {Data: encodeTable(t, testTable(testRow(ep.Even, 0, 99, 32)))}, "notes.txt": {Data: []byte("x")}}}
	writeTable(t, filepath.Join(l.System, "a.json"), testRow(ep.Even, 10, 99, 64))
	writeTable(t, filepath.Join(l.User, "b.json"), testRow(ep.Even, 20, 99, 128))
	writeTable(t, l.File, testRow(ep.Even, 30, 99, 256))
	set, err := Open(l)
	if err != nil || len(set.Warnings()) > 0 {
		t.Fatal(err, set.Warnings())
	}
	for tokens, threads := range map[int]int{9: 32, 10: 64, 20: 128, 30: 256, 99: 256} {
		if got := set.Lookup(testKey(ep.Even), tokens).Config.Int("threads"); got != threads {
			t.Errorf("%d tokens: %d threads, want %d", tokens, got, threads)
		}
	}
	if a := set.Lookup(testKey(ep.Even), 100); a.Reason != Uncovered || !a.Config.IsDefault() {
		t.Errorf("outside coverage: %+v", a)
	}
}

func TestOpenLeavesOutBadTables(t *testing.T) {
	dir := t.TempDir()
	writeTable(t, filepath.Join(dir, "good.json"), testRow(ep.Even, 0, 99, 64))
	testfile.Write(t, filepath.Join(dir, "bad.json"), "{\n\"schema\": 2")
	set, err := Open(Locations{System: dir, User: filepath.Join(dir, "absent")})
	if err != nil || len(set.Sources()) != 1 {
		t.Fatal(err, set)
	}
	if w := set.Warnings(); len(w) != 1 || !strings.Contains(w[0].Error(), "bad.json: line 2: ") {
		t.Errorf("warnings %v", w)
	}
	if _, err := Open(Locations{File: filepath.Join(dir, "bad.json")}); err == nil {
		t.Error("a bad file in Locations.File was accepted")
	}
	if _, err := Open(Locations{File: filepath.Join(dir, "none.json")}); err == nil || !strings.Contains(err.Error(), "none.json: file does not exist") &&
		!strings.Contains(err.Error(), "no such file") {
		t.Errorf("a missing file: %v", err)
	}
}

func TestWriteToRefusesBeforeItWrites(t *testing.T) {
	bad := testTable(testRow(ep.Even, 0, 99, 64))
	bad.Rows[0].Lo = 100
	var out bytes.Buffer
	if _, err := bad.WriteTo(&out); err == nil || !strings.Contains(err.Error(), "rows[0].lo: 100 is above hi 99") || out.Len() > 0 {
		t.Errorf("a bad table was written, %d bytes: %v", out.Len(), err)
	}
}
