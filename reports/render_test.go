package reports_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/epbench/epbench/reports"
)

func rendered() reports.Table {
	t := reports.Table{
		Name: "sample", Title: "A | B",
		Columns: []reports.Column{reports.Words("config"), reports.Numbers("p 90", "us"), reports.Numbers("share", "%"), reports.Words("ok")},
		Notes:   []string{"a note"},
	}
	t.Add(reports.Str(`a|"b",c`), reports.Micros(1.5e-6), reports.Percent(0.251), reports.Bool(true))
	t.Add(reports.Str("<i>"), reports.None(), reports.Float(math.NaN(), 1), reports.Bool(false))
	t.Warn("careful")
	t.Warn("careful")
	return t
}

func TestRenderers(t *testing.T) {
	for _, c := range []struct {
		name  string
		write reports.Renderer
		want  string
	}{
		{"csv", reports.WriteCSV, "config,p_90_us,share_percent,ok\n\"a|\"\"b\"\",c\",1.5,25.1,true\n<i>,,,false\n"},
		{"json", reports.WriteJSON, `[
  {
    "name": "sample",
    "title": "A | B",
    "rows": [
      {
        "config": "a|\"b\",c",
        "p_90_us": 1.5,
        "share_percent": 25.1,
        "ok": true
      },
      {
        "config": "<i>",
        "p_90_us": null,
        "share_percent": null,
        "ok": false
      }
    ],
    "notes": [
      "a note"
    ],
    "warnings": [
      "careful"
    ]
  }
]
`},
		{"markdown", reports.WriteMarkdown, `### A | B

| config | p 90 (us) | share (%) | ok |
| --- | ---: | ---: | --- |
| a\|"b",c | 1.50 | 25.1 | yes |
| &lt;i> | - | - | no |

a note

**Warning:** careful
`},
	} {
		var b bytes.Buffer
		if err := c.write(&b, rendered()); err != nil {
			t.Fatal(err)
		}
		if b.String() != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, b.String(), c.want)
		}
	}
}

func TestTwoTablesInOneCSV(t *testing.T) {
	a := reports.Table{Name: "a", Columns: []reports.Column{reports.Words("x")}}
	b := a
	b.Name = "b"
	var out bytes.Buffer
	if err := reports.WriteCSV(&out, a, b); err != nil {
		t.Fatal(err)
	}
	if want := "# a\nx\n\n# b\nx\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
