package worker

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestRowsFile: probed rows are the same in the file and in the answer. They come in the
// answer where there is no file, and none is made. A worker's end removes its file.
func TestRowsFile(t *testing.T) {
	b := openScripted(t, "honest")
	s := openWorkload(t, b, ep.Dispatch).(*session)
	c := defaultOf(t, b, ep.Dispatch)
	if err := s.Prepare(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	probes := chooseProbes(s.workload)
	ask := func(file string) []ProbeRow {
		var r VerifyReply
		if err := s.proc.call(t.Context(), methodVerify, VerifyParams{Candidate{s.id, c}, probes, file}, &r, b.limits.Verify); err != nil {
			t.Fatal(err)
		}
		return r.Probed
	}
	missing := filepath.Join(t.TempDir(), "rows")
	inline, elsewhere, none := ask(""), ask(missing), ask(s.proc.rows)
	filed := readRows(s.proc.rows, 2*s.workload.Problem.Hidden)
	if len(inline) != len(probes) || len(elsewhere) != len(probes) || len(none) != 0 || len(filed) != len(probes) {
		t.Fatalf("%d probes: %d rows, %d without a file, %d in the answer and %d in the file", len(probes), len(inline), len(elsewhere), len(none), len(filed))
	}
	for i := range probes {
		if !bytes.Equal(inline[i].Data, filed[i].Data) {
			t.Errorf("row %d differs", i)
		}
	}
	if rows := readRows(s.proc.rows, 1); rows != nil {
		t.Errorf("%d bytes were read twice", len(rows))
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("a file was made")
	}
	file := s.proc.rows
	b.Close()
	if _, err := os.Stat(file); err == nil {
		t.Errorf("%s stays", file)
	}
}
