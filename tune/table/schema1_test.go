package table

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// schema1 is a table that an epbench of schema 1 wrote.
func schema1(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/schema1.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSchema1IsReadAsSchema2(t *testing.T) {
	tab, err := Load(strings.NewReader(schema1(t)))
	if err != nil {
		t.Fatal(err)
	}
	h := tab.Header
	if tab.Schema != 2 || h.Band != 0.01 || fmt.Sprint(h.Fallback) != "[routing top_k experts hidden]" || h.Edited {
		t.Errorf("schema %d, header %+v", tab.Schema, h)
	}
	var keys []string
	for _, r := range tab.Rows {
		keys = append(keys, fmt.Sprint(r.Key.Op, " ", r.Key.Routing, " ", r.Key.Precision))
		if e := r.Evidence; e.GainLow < 1 || e.GainHigh < e.GainLow || e.Tried == 0 || e.Median == 0 {
			t.Errorf("%s: evidence %+v", r.Key, e)
		}
	}
	want := "dispatch even full, dispatch concentrated full, dispatch hot-rank full, dispatch all full, dispatch skewed full, " +
		"combine even reduced, combine all reduced"
	if got := strings.Join(keys, ", "); got != want {
		t.Errorf("rows %s", got)
	}
	k := tab.Rows[0].Key
	k.Routing = ep.Even
	if a := tab.Lookup(k, 8); a.Reason != Exact || a.Config.Key() != "dispatch_ll:early=1,part=512,pause=0,pdl=0,receivers=0,send=512,sms=132,threads=512" {
		t.Errorf("it answers %s, %s", a.Config.Key(), a.Reason)
	}
	again, err := Load(bytes.NewReader(encodeTable(t, tab)))
	if err != nil || again.ID != tab.ID {
		t.Errorf("written in schema 2 it is another table: %v", err)
	}
}

func TestEditedSchema1(t *testing.T) {
	edited := strings.Replace(schema1(t), `"sms":132`, `"sms":64`, 1)
	if _, err := Load(strings.NewReader(edited)); err == nil || !strings.Contains(err.Error(), "it was edited after it was written") {
		t.Errorf("an edited table loads: %v", err)
	}
	tab, err := LoadEdited(strings.NewReader(edited))
	if err != nil || !tab.Header.Edited || tab.Header.Machine.SMs != 64 {
		t.Fatalf("%v", err)
	}
	if whole, err := LoadEdited(strings.NewReader(schema1(t))); err != nil || whole.Header.Edited {
		t.Errorf("a whole one is marked: %v", err)
	}
	for _, c := range []struct{ old, new, want string }{
		{`"gain_lo":`, `"gain":`, `line 6: rows[0].evidence: field "gain" is given twice`},
		{`"routing":"even"}`, `"routing":"odd"}`, `line 6: rows[0].key: field "precision" is missing`},
		{`band=0.01`, `band=-1`, ``},
	} {
		_, err := LoadEdited(strings.NewReader(strings.Replace(schema1(t), c.old, c.new, 1)))
		if got := fmt.Sprint(err); c.want != "" && got != c.want || c.want == "" && err != nil {
			t.Errorf("%s: %v, want %s", c.new, err, c.want)
		}
	}
}
