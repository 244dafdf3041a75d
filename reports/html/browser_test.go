package html_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/reports/html"
)

// Limits for a page of 5,000 trials, in bytes and DOM nodes.
const (
	maxPage  = 5 << 20
	maxNodes = 150_000
)

// TestBrowser opens a page of 5,000 trials in Chromium.
func TestBrowser(t *testing.T) {
	node, chromium := browser(t)
	l := enlarged(t, 5000)
	path := filepath.Join(t.TempDir(), "report.html")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := html.Write(f, []*reports.Loaded{l}, html.Options{}); err != nil {
		t.Fatal(err)
	}
	if info, _ := f.Stat(); info.Size() > maxPage {
		t.Errorf("the page of %d trials has %d bytes, %d are allowed", len(l.Results), info.Size(), maxPage)
	}
	f.Close()
	cmd := exec.Command(node, "check.mjs", path, chromium)
	cmd.Dir = "browsertest"
	cmd.Stderr = os.Stderr
	raw, err := cmd.Output()
	if err != nil {
		t.Fatalf("check.mjs: %v", err)
	}
	var got struct {
		Problems []string
		Nodes    int
		Rows     int
		Axe      map[string][]string
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	t.Logf("%d rows, %d nodes, axe: %v", got.Rows, got.Nodes, got.Axe)
	for _, p := range got.Problems {
		t.Error(p)
	}
	if got.Nodes > maxNodes {
		t.Errorf("the page has %d nodes, %d are allowed", got.Nodes, maxNodes)
	}
	if got.Rows < 4000 || len(got.Axe) != 3 {
		t.Errorf("%d rows and %d audits by axe, want at least 4,000 rows and 3 audits", got.Rows, len(got.Axe))
	}
}

// browser returns the paths of Node.js and Chromium, or skips the test.
func browser(t *testing.T) (node, chromium string) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node: install Node.js to test the page in a browser")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if chromium, err = exec.LookPath(name); err == nil {
			break
		}
	}
	if err != nil {
		t.Skip("no chromium: apt-get install chromium to test the page in a browser")
	}
	if _, err := os.Stat(filepath.Join("browsertest", "node_modules", "playwright-core")); err != nil {
		t.Skip("no node_modules: run npm ci in reports/html/browsertest")
	}
	return node, chromium
}
