package worker

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestRowsFile checks that the file has the same rows as the answer, and that the file is removed when the worker ends.
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
		t.Fatalf("%d probes, but %d rows in the answer without a file name, %d rows with a missing file, %d rows with a file; %d rows in the file", len(probes), len(inline), len(elsewhere), len(none), len(filed))
	}
	for i := range probes {
		if !bytes.Equal(inline[i].Data, filed[i].Data) {
			t.Errorf("row %d differs", i)
		}
	}
	if rows := readRows(s.proc.rows, 1); rows != nil {
		t.Errorf("%d rows were read a second time from the file", len(rows))
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("the worker made the file that did not exist")
	}
	file := s.proc.rows
	b.Close()
	if _, err := os.Stat(file); err == nil {
		t.Errorf("%s still exists after the worker has ended", file)
	}
}

func TestRowsOfNoProbes(t *testing.T) {
	b := openScripted(t, "honest")
	s := openWorkload(t, b, ep.Activation).(*session)
	if err := os.WriteFile(s.proc.rows, make([]byte, 2*s.workload.Problem.Hidden), 0); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Verify(t.Context(), defaultOf(t, b, ep.Activation)); err != nil || !v.OK() {
		t.Errorf("%+v, %v", v, err)
	}
}
