package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/tune/testfile"
)

func TestTableExitCodes(t *testing.T) {
	demo, err := filepath.Abs("../../testdata/tables/cpu-demo.json")
	if err != nil {
		t.Fatal(err)
	}
	text := testfile.Read(t, demo)
	t.Chdir(t.TempDir())
	write := func(name, content string) {
		testfile.Write(t, name, content)
	}
	write("edited.json", strings.Replace(string(text), `"sms":2`, `"sms":4097`, 1))
	write("cut.json", string(text[:len(text)/2]))
	for _, c := range []struct {
		args string
		want int
	}{
		{"show --table DEMO", exitDone},
		{"lookup --table DEMO --tokens 99999", exitDone},
		{"lint --table DEMO", exitDone},
		{"lint --table edited.json --allow-edited", exitWrong},
		{"verify --table edited.json --allow-edited --backend cpu -o receipt.json", exitNotComparable},
		{"merge DEMO DEMO -o none/out.json", exitUsage},
		{"merge DEMO DEMO", exitUsage},
		{"fallback DEMO --fields top_k -o wide.json", exitDone},
		{"fallback DEMO", exitUsage},
		{"fallback ../../none.json RUN", exitUsage},
		{"show --embedded --table DEMO", exitUsage},
		{"show --table edited.json", exitUsage},
		{"show --table cut.json", exitUsage},
		{"show --table none.json", exitUsage},
		{"show --table DEMO extra", exitUsage},
		{"show --table DEMO --format rust", exitUsage},
		{"lookup --table DEMO --machine none.json", exitUsage},
		{"lookup --table DEMO --routing zipff", exitUsage},
		{"lookup --table DEMO --tokens 1:", exitUsage},
		{"explain --table DEMO --op send", exitUsage},
		{"diff DEMO", exitUsage},
		{"export --table DEMO --format rust", exitUsage},
		{"export --table DEMO --format c -o none/tuned.h", exitUsage},
		{"verify --backend cpu", exitNotComparable},
		{"unknown", exitUsage},
	} {
		var stdout, stderr bytes.Buffer
		args := strings.Fields("table " + strings.ReplaceAll(c.args, "DEMO", demo))
		if got := run(context.Background(), args, &stdout, &stderr); got != c.want {
			t.Errorf("%s: exit %d, want %d\n%s", c.args, got, c.want, stderr.String())
		}
		if c.want == exitUsage && strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%s: the error is not one line: %q", c.args, stderr.String())
		}
	}
}

// TestReasonText: no reason is printed twice.
func TestReasonText(t *testing.T) {
	row := func(reason string) *table.Row { return &table.Row{Evidence: table.Evidence{Reason: reason}} }
	for want, a := range map[string]table.Answer{
		"kept":                            {Reason: table.Kept, Row: row("")},
		"kept, undecided":                 {Reason: table.Kept, Row: row("kept")},
		"exact, compromise of 2 routings": {Reason: table.Exact, Row: row("compromise of 2 routings")},
		"refused":                         {Reason: table.Refused},
	} {
		if got := reasonText(&a); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
