package record

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		text    string
		inPlace bool
	}{
		{"0", true}, {"1", true}, {"9", true}, {"0.5", true}, {"1.0345678e-05", true}, {"2.5e-09", true}, {"7e-22", true},
		{"1e-10", true}, {"9.9e-19", true}, {"1.5e-21", true},
		{"123456789012345", true}, {"1234567.89012345", true}, {"0.00001", true},
		{"1.5e-22", false}, {"7e-23", false}, {"1234567890123456", false}, {"1e5", false}, {"1e-7", false}, {"1E-05", false},
		{"1e+05", false}, {"1.7976931348623157e308", false}, {"5e-324", false}, {"1e-005", false}, {"3e-0a", false}, {"3e-a0", false},
	} {
		for _, end := range []string{",", "]"} {
			want, bad := strconv.ParseFloat(c.text, 64)
			buf := []byte("  " + c.text + end)
			var got float64
			var err error
			var s scanner
			allocated := testing.AllocsPerRun(20, func() {
				s = scanner{buf, 0}
				got, err = s.number()
			})
			if (err != nil) != (bad != nil) || bad == nil && got != want {
				t.Errorf("%s is %v, %v; want %v, %v", c.text, got, err, want, bad)
			}
			if bad == nil && s.pos != len(buf)-1 {
				t.Errorf("%s: the scanner is at %d of %d", c.text, s.pos, len(buf))
			}
			if (allocated == 0) != c.inPlace {
				t.Errorf("%s%s: %v allocations, parsed in place: want %v", c.text, end, allocated, c.inPlace)
			}
		}
	}
}

func TestNumberRefuses(t *testing.T) {
	for _, text := range []string{"", ",", "]", "-1,", "+1,", ".5,", "1e999,", "NaN,", "Inf,", "0x1p-2,", "1..2,", "1.2.3,", "true,", `"1",`, "1e-05x,"} {
		s := scanner{[]byte(text), 0}
		if v, err := s.number(); err == nil {
			t.Errorf("%q was read as %v", text, v)
		}
	}
	s := scanner{[]byte("1.5 ,"), 0}
	if v, err := s.number(); err != nil || v != 1.5 {
		t.Errorf("before a blank: %v, %v", v, err)
	}
}

func TestSecondsAreCutFromTheLine(t *testing.T) {
	for _, c := range []struct {
		line, rest string
		rounds     int
	}{
		{`{"a":1,"seconds":[[1,2],[3,4]]}`, `{"a":1}`, 2},
		{`{"a":1,"seconds":[[1,2],[3]]}`, `{"a":1,"seconds":[[1,2],[3]]}`, 0},
		{`{"a":1,"seconds":[[1,2]],"b":2}`, `{"a":1,"seconds":[[1,2]],"b":2}`, 0},
		{`{"a":1,"seconds":[[1,2]]} `, `{"a":1,"seconds":[[1,2]]} `, 0},
		{`{"a":1}`, `{"a":1}`, 0},
		{`,"seconds":[[1]]}`, `}`, 1},
	} {
		rest, seconds := newDecoder().cutSeconds([]byte(c.line))
		if string(rest) != c.rest || len(seconds) != c.rounds {
			t.Errorf("%s leaves %s and %v", c.line, rest, seconds)
		}
	}
	row := make([]string, ep.MaxRanks)
	for i := range row {
		row[i] = strconv.Itoa(i)
	}
	full := "[[" + strings.Join(row, ",") + "]]"
	got, err := newDecoder().rounds([]byte(full))
	if err != nil || len(got[0]) != ep.MaxRanks || got[0][ep.MaxRanks-1] != ep.MaxRanks-1 {
		t.Errorf("a round of %d ranks: %v, %v", ep.MaxRanks, got, err)
	}
	if _, err := newDecoder().rounds([]byte(strings.Replace(full, "]]", ",1]]", 1))); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("one rank too many: %v", err)
	}
}

func TestRowsDoNotOverlap(t *testing.T) {
	d := newDecoder()
	var all [][]float64
	for i := range 40 {
		rows, err := d.rounds([]byte(fmt.Sprintf("[[%d,%d,%d]]", i, i, i)))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, append(rows[0], -1)) // must not write into another row
	}
	for i, row := range all {
		if row[0] != float64(i) || row[1] != float64(i) || row[2] != float64(i) {
			t.Fatalf("row %d is %v", i, row)
		}
	}
}

func TestSharedIsBounded(t *testing.T) {
	d := newDecoder()
	for i := range maxShared {
		d.configs[strconv.Itoa(i)] = ep.Config{}
	}
	var r Result
	line := bytes.TrimSuffix(encode(t, sample(0, 1)), []byte("\n"))
	if err := d.decode(line, &r); err != nil || r.Config.Kernel != "direct" {
		t.Fatalf("%v, %v", r.Config, err)
	}
	if len(d.configs) != maxShared {
		t.Errorf("%d configs are kept, want at most %d", len(d.configs), maxShared)
	}
	delete(d.configs, "0")
	line = bytes.TrimSuffix(encode(t, sample(0, 1)), []byte("\n"))
	if err := d.decode(line, &r); err != nil || len(d.configs) != maxShared {
		t.Errorf("%d configs are kept with room for one config, %v", len(d.configs), err)
	}
}

func TestBadLineIsNamed(t *testing.T) {
	log := append(encode(t, sample(0, 1), sample(1, 1)), "nonsense\n"...)
	in := NewReader(bytes.NewReader(log))
	var r Result
	var err error
	for err == nil {
		err = in.Read(&r)
	}
	if err == io.EOF || !strings.Contains(err.Error(), "line 3:") || !strings.Contains(err.Error(), "head -n 2)") {
		t.Errorf("%v", err)
	}
}

// TestKnownObjectsCountOnce: a line with the same object twice is refused, even if the decoder knows the object.
func TestKnownObjectsCountOnce(t *testing.T) {
	line := string(bytes.TrimSuffix(encode(t, sample(0, 1)), []byte("\n")))
	for _, name := range []string{"problem", "config"} {
		d := newDecoder()
		var first, again Result
		if err := d.decode([]byte(line), &first); err != nil {
			t.Fatal(err)
		}
		if err := d.decode([]byte(line), &again); err != nil || again.Problem != first.Problem || again.Config.Key() != first.Config.Key() {
			t.Fatalf("the same line again: %v, %v", again, err)
		}
		at := strings.Index(line, `,"`+name+`":`)
		end := map[string]string{"problem": "}", "config": "}}"}[name]
		object := line[at : at+strings.Index(line[at:], end)+len(end)]
		for what, bad := range map[string]string{
			"the known object twice":                  strings.Replace(line, object, object+object, 1),
			"another object after the known object":   strings.Replace(line, object, object+strings.Replace(object, "4", "2", 1), 1),
			"the known object under another name":     strings.Replace(line, `"`+name+`"`, `"nothing"`, 1),
			"the known object without its last brace": strings.Replace(line, object, object[:len(object)-1], 1),
		} {
			if err := d.decode([]byte(bad), &again); err == nil {
				t.Errorf("%s, %s: accepted", name, what)
			}
		}
	}
}
