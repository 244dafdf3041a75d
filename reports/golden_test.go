package reports_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/reports/text"
	"github.com/epbench/epbench/tune/testfile"
)

func runs(t *testing.T) map[string]*reports.Loaded {
	t.Helper()
	out := map[string]*reports.Loaded{"failures": small().load("failures"), "ties": ties().load("ties")}
	for _, name := range []string{"cpu-sweep", "cpu-single"} {
		l, err := reports.Load(filepath.Join("..", "testdata", "runs", name))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = l
	}
	return out
}

func TestTablesGolden(t *testing.T) {
	for name, l := range runs(t) {
		for width, suffix := range map[int]string{80: "80", 120: "120", 0: "wide"} {
			var b bytes.Buffer
			if err := text.Renderer(width)(&b, reports.DerivedTables(l, reports.Speeds{}, 40)...); err != nil {
				t.Fatal(err)
			}
			for line := range strings.SplitSeq(b.String(), "\n") {
				if w := twwidth.Width(line); width > 0 && w > width {
					t.Errorf("%s: a line has %d columns, the limit is %d: %q", name, w, width, line)
				}
			}
			testfile.Golden(t, "testdata/golden/"+name+"-"+suffix+".txt", b.Bytes())
		}
	}
}

func TestFormatsGolden(t *testing.T) {
	l := runs(t)["cpu-sweep"]
	for ext, write := range map[string]reports.Renderer{"md": reports.WriteMarkdown, "csv": reports.WriteCSV, "json": reports.WriteJSON} {
		var b bytes.Buffer
		if err := write(&b, reports.DerivedTables(l, reports.Speeds{}, 0)...); err != nil {
			t.Fatal(err)
		}
		testfile.Golden(t, "testdata/golden/cpu-sweep."+ext, b.Bytes())
	}
}
