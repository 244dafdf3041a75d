package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/reports/live"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/testfile"
)

// copyOfRun copies a recorded run, or makes it look unfinished.
func copyOfRun(t *testing.T, finished bool) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{record.RunFile, record.TrialsFile} {
		text := testfile.Read(t, filepath.Join("../../testdata/runs/cpu-single", name))
		if name == record.RunFile && !finished {
			text = []byte(strings.Replace(string(text), `"finished":`, `"finished":"0001-01-01T00:00:00Z","was":`, 1))
			before, after, _ := strings.Cut(string(text), `"was":`)
			_, after, _ = strings.Cut(after, ",")
			text = []byte(before + after)
		}
		testfile.Write(t, filepath.Join(dir, name), text)
	}
	return dir
}

// TestLivePage: only this host can read the page. Browsers reload it until the run ends.
func TestLivePage(t *testing.T) {
	ask := func(p *livePage, host, path string) (*http.Response, string) {
		r, w := httptest.NewRequest(http.MethodGet, "http://"+host+path, nil), httptest.NewRecorder()
		p.ServeHTTP(w, r)
		text, _ := io.ReadAll(w.Result().Body)
		return w.Result(), string(text)
	}
	running := &livePage{path: copyOfRun(t, false), every: leastRefresh}
	if got, text := ask(running, "127.0.0.1:80", "/"); got.StatusCode != http.StatusOK || got.Header.Get("Refresh") != "5" || !strings.Contains(text, "<!doctype html>") ||
		!strings.Contains(text, "searches done") || strings.Contains(text, "--resume") {
		t.Errorf("running: %v %.200s", got, text)
	}
	finished := &livePage{path: copyOfRun(t, true), every: leastRefresh}
	if got, _ := ask(finished, "localhost:80", "/"); got.StatusCode != http.StatusOK || got.Header.Get("Refresh") != "" {
		t.Errorf("finished: %v", got)
	}
	if got, _ := ask(running, "example.com:80", "/"); got.StatusCode != http.StatusForbidden {
		t.Errorf("another name: %v", got)
	}
	if got, _ := ask(running, "127.0.0.1:80", "/trials.jsonl"); got.StatusCode != http.StatusNotFound {
		t.Errorf("another file: %v", got)
	}
	if got, _ := ask(&livePage{path: t.TempDir(), every: leastRefresh}, "127.0.0.1:80", "/"); got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Refresh") != "5" {
		t.Errorf("nothing measured yet: %v", got)
	}
}

// TestWatchPiped: a pipe gets no escape sequences.
func TestWatchPiped(t *testing.T) {
	var out, errors strings.Builder
	if code := run(t.Context(), []string{"watch", copyOfRun(t, false)}, &out, &errors); code != 0 || strings.Contains(out.String(), "\x1b") || !strings.Contains(out.String(), "best so far") {
		t.Errorf("exit %d: %s%s", code, out.String(), errors.String())
	}
	if code := run(t.Context(), []string{"watch", t.TempDir()}, &out, &errors); code != exitUsage {
		t.Errorf("no run: exit %d: %s", code, errors.String())
	}
}

// TestPageFitsTheTerminal: a page fits the terminal and says how many searches it omits.
func TestPageFitsTheTerminal(t *testing.T) {
	f := live.Follow("../../testdata/runs/cpu-sweep")
	if err := f.Update(time.Now()); err != nil {
		t.Fatal(err)
	}
	whole, err := fittingPage(f, 80, 0)
	if err != nil || strings.Contains(whole, "not shown:") {
		t.Errorf("without a terminal: %v\n%s", err, whole)
	}
	all := strings.Count(whole, "\n")
	for height := 3; height <= all+2; height++ {
		page, err := fittingPage(f, 80, height)
		lines := strings.Count(page, "\n")
		if err != nil || lines >= height || lines < min(all, height-2) {
			t.Errorf("%d lines on a terminal of %d, %v:\n%s", lines, height, err, page)
		}
	}
}
