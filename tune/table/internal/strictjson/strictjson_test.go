package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

type file struct {
	Name  string             `json:"name"`
	Rows  []row              `json:"rows"`
	Stats map[string]float64 `json:"stats"`
	When  time.Time          `json:"when"`
	Note  string             `json:"note"`
	Left  string             `json:"-"`
}

type row struct {
	Lo   int   `json:"lo"`
	List []int `json:"list,omitempty"`
	OK   bool  `json:"ok,omitzero"`
}

const good = `{
"name": "a \"quoted\" name",
"rows": [
{"lo": 1, "list": [1, 2], "ok": true},
{"lo": -2}
],
"stats": {"gini": 0.5, "max": 1e3},
"when": "2026-01-31T12:00:00Z",
"note": ""
}
`

func TestUnmarshalFillsAsEncodingJSONDoes(t *testing.T) {
	var got, want file
	if err := Unmarshal([]byte(good), &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(good), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) || got.Rows[0].List[1] != 2 {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestUnmarshalNamesThePlace makes one change in a valid file.
func TestUnmarshalNamesThePlace(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"lo": -2`, `"lo": -2, "hi": 3`, `line 5: rows[1]: unknown field "hi"`},
		{`"lo": -2`, `"LO": -2`, `line 5: rows[1]: unknown field "LO"`},
		{`"lo": -2`, `"l\u006f": -2`, `line 5: rows[1]: unknown field "l\\u006f"`},
		{`"lo": -2`, `"lo": -2, "lo": 3`, `line 5: rows[1]: field "lo" is given twice`},
		{`"lo": -2`, `"ok": true`, `line 5: rows[1]: field "lo" is missing`},
		{`"lo": -2`, `"lo": null`, `line 5: rows[1].lo: null where a value is needed`},
		{`"lo": -2`, `"lo": 2.0`, `line 5: rows[1].lo: number 2.0 where int is needed`},
		{`"lo": -2`, `"lo": "2"`, `line 5: rows[1].lo: string where int is needed`},
		{`"lo": -2`, `"lo": {"x":1}`, `line 5: rows[1].lo: object where int is needed`},
		{`"lo": -2`, `"lo": 99999999999999999999`, `line 5: rows[1].lo: number 99999999999999999999 where int is needed`},
		{`{"lo": -2}`, `7`, `line 5: rows[1]: no object where an object is needed`},
		{`{"lo": -2}`, `[7]`, `line 5: rows[1]: no object where an object is needed`},
		{`[1, 2]`, `[1, null]`, `line 4: rows[0].list[1]: null where a value is needed`},
		{`[1, 2]`, `[1, 2`, `line 4: rows[0].list[3]: invalid character ':' after array element`},
		{`[1, 2]`, `3`, `line 4: rows[0].list: number where []int is needed`},
		{`"max": 1e3`, `"gini": 1`, `line 7: stats: field "gini" is given twice`},
		{`"max": 1e3`, `"m\u0061x": 1`, `line 7: stats: field "m\\u0061x" is spelled with escapes`},
		{`"max": 1e3`, `"max": 1e999`, `line 7: stats.max: number 1e999 where float64 is needed`},
		{`"max": 1e3`, "\"\u200b\": []", `line 7: stats.\u200b: array where float64 is needed`},
		{`"max": 1e3`, manyNames(257), `line 7: stats: more than 256 fields`},
		{`2026-01-31T`, `2026-01-32T`, `line 8: when: parsing time "2026-01-32T12:00:00Z": day out of range`},
		{"\"\"\n}\n", "\"\"\n}\n\n{}", `line 12: invalid character '{' after top-level value`},
		{"\"\"\n}\n", "\"", `line 9: note: unexpected end of JSON input`},
		{`"name": "a`, `"name": tru`, `line 2: name: invalid character ' ' in literal true (expecting 'e')`},
		{`[1, 2]`, `[1, }`, `line 4: rows[0].list[1]: invalid character '}' looking for beginning of value`},
		{good, `{"rows":[}`, `line 1: rows[0]: invalid character '}' looking for beginning of value`},
		{good, `{"rows":[:`, `line 1: rows[0]: invalid character ':' looking for beginning of value`},
		{good, `{"rows":,`, `line 1: rows: invalid character ',' looking for beginning of value`},
		{good, ``, `line 1: unexpected end of JSON input`},
		{good, `7`, `line 1: no object where an object is needed`},
		{`"note": ""`, `"note": {"a": 1, "a": 2}`, `line 9: note: field "a" is given twice`},
		{`"note": ""`, `"note": "", "-": 1`, `line 9: unknown field "-"`},
	} {
		bad := strings.Replace(good, c.old, c.new, 1)
		if bad == good {
			t.Fatalf("%s is not in the file", c.old)
		}
		var f file
		if err := Unmarshal([]byte(bad), &f); err == nil || err.Error() != c.want {
			t.Errorf("%s for %s:\n got %v\nwant %s", c.new, c.old, err, c.want)
		}
	}
}

func manyNames(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf(`"n%d":1`, i)
	}
	return strings.Join(names, ",")
}

func TestEveryBeginningOfAFileIsRefused(t *testing.T) {
	for n := range len(good) - 1 {
		var f file
		if err := Unmarshal([]byte(good[:n]), &f); err == nil || !strings.HasPrefix(err.Error(), "line ") {
			t.Fatalf("the first %d bytes: %v", n, err)
		}
	}
}

func TestLine(t *testing.T) {
	for path, want := range map[string]int{
		"name": 2, "rows": 3, "rows[0]": 4, "rows[0].list[1]": 4, "rows[1].lo": 5, "rows[1].nosuch": 5,
		"rows[9]": 3, "stats.max": 7, "note": 9, "nosuch": 1, "": 1, "row": 1,
	} {
		if got := Line([]byte(good), path); got != want {
			t.Errorf("Line returns %[2]d for %[1]q, want %[3]d", path, got, want)
		}
	}
}

// FuzzUnmarshal: encoding/json reads the same values.
func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(good[:40]))
	f.Add([]byte(`{"name":"","rows":[{"lo":0}],"stats":{},"when":"2026-01-31T12:00:00Z","note":"x"}`))
	f.Add(bytes.Repeat([]byte("["), 20000))
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, want file
		if err := Unmarshal(data, &got); err != nil {
			if text := err.Error(); !strings.HasPrefix(text, "line ") || strings.Contains(text, "\n") || len(text) > 1000 {
				t.Errorf("not one line: %s", text)
			}
			return
		}
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, encoding/json %+v, %v", got, want, err)
		}
	})
}

func ExampleUnmarshal() {
	var point struct {
		Tokens int     `json:"tokens"`
		Gain   float64 `json:"gain"`
	}
	fmt.Println(Unmarshal([]byte("{\"tokens\": 8,\n\"gian\": 1.2}"), &point))
	fmt.Println(Unmarshal([]byte("{\"tokens\": 8}"), &point))
	// Output:
	// line 2: unknown field "gian"
	// line 1: field "gain" is missing
}
