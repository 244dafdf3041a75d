package table

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// allowance is the number of bytes that a load may allocate beyond 16 times its input.
const allowance = 64 << 10

func FuzzLoad(f *testing.F) {
	good := encodeTable(f, testTable(testRow(ep.Even, 0, 8, 128), testRow(ep.AllRoutings, 9, 64, 512)))
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add(bytes.Replace(good, []byte(`"lo":0`), []byte(`"lo":-0`), 1))
	f.Add(bytes.Replace(good, []byte(`"fallback":["routing"`), []byte(`"fallback":["route"`), 1))
	f.Add([]byte(`{"schema":2,"id":"","header":{},"rows":[` + strings.Repeat("{},", 100) + `]}`))
	f.Add([]byte(strings.Repeat("[", 1000)))
	f.Add([]byte(strings.Repeat("[", 9000)))
	f.Add([]byte("{\"schema\": 2,\n\"rows\": [" + strings.Repeat(`{"evidence":{"tokens":[1,1,1,1,1,1,1,1]`, 50)))
	f.Fuzz(func(t *testing.T, data []byte) {
		var tab *Table
		var err error
		spent := allocated(t, func() { tab, err = LoadEdited(bytes.NewReader(data)) })
		if spent > uint64(16*len(data)+allowance) {
			t.Errorf("reading %d bytes allocated %d", len(data), spent)
		}
		if err != nil {
			if !strings.HasPrefix(err.Error(), "line ") || strings.Contains(err.Error(), "\n") {
				t.Errorf("the error is not a single line that begins with a line number: %v", err)
			}
			return
		}
		if _, err := Load(bytes.NewReader(encodeTable(t, tab))); err != nil {
			t.Errorf("the table does not load after it was written: %v", err)
		}
	})
}

func allocated(t *testing.T, f func()) uint64 {
	if testing.Short() {
		t.Skip("left out under the race detector (make race), because sync.Pool then drops objects at random")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestLoadMemoryIsBounded(t *testing.T) {
	head := `{"schema":2,"id":"","header":` + headerJSON(t) + `,"rows":[`
	for name, body := range map[string]string{
		"empty rows":     strings.Repeat("{},", 1<<18),
		"open rows":      strings.Repeat("{", 1<<19),
		"numbers":        strings.Repeat("0,", 1<<19),
		"tokens":         evidencePrefix + `"tokens":[` + strings.Repeat("1,", 1<<19),
		"empty routings": evidencePrefix + `"routings":[` + strings.Repeat(`"",`, 1<<18),
		"short routings": evidencePrefix + `"routings":[` + strings.Repeat(`"a",`, 1<<18),
		"values":         `{"config":{"kernel":"a","values":{` + manyValues(1<<16),
		"long number":    `{"lo":` + strings.Repeat("9", 1<<20),
		"long string":    `{"key":{"op":"` + strings.Repeat("a", 1<<20),
		"escapes":        `{"key":{"op":"` + strings.Repeat(`\u0061`, 1<<18) + `"`,
	} {
		t.Run(name, func(t *testing.T) {
			data := []byte(head + body)
			var err error
			spent := allocated(t, func() { _, err = Load(bytes.NewReader(data)) })
			t.Logf("%.1f times the input: %.100v", float64(spent)/float64(len(data)), err)
			if err == nil {
				t.Error("Load accepted the file")
			}
			if spent > uint64(16*len(data)+allowance) {
				t.Errorf("%d bytes allocated %d, %.1f times", len(data), spent, float64(spent)/float64(len(data)))
			}
		})
	}
}

// TestLoadOfLongListsIsBounded bounds the live memory. Lists are refused only after they were read.
func TestLoadOfLongListsIsBounded(t *testing.T) {
	good := string(encodeTable(t, testTable(testRow(ep.Even, 0, 8, 128))))
	for _, c := range []struct{ old, new string }{
		{`"tokens":[0,8]`, `"tokens":[` + strings.Repeat("1,", 1<<19) + `1]`},
		{`"routings":["uniform"]`, `"routings":[` + strings.Repeat(`"",`, 1<<19) + `""]`},
		{`"fallback":["routing","hidden"]`, `"fallback":[` + strings.Repeat(`"",`, 1<<19) + `""]`},
		{`"threads":128`, manyValues(250) + `"threads":128`},
	} {
		data := []byte(strings.Replace(good, c.old, c.new, 1))
		var err error
		spent := allocated(t, func() { _, err = Load(bytes.NewReader(data)) })
		t.Logf("%.1f times the input: %.100v", float64(spent)/float64(len(data)), err)
		if err == nil || len(data) < len(good)+1000 {
			t.Errorf("%d bytes load", len(data))
		}
		if spent > uint64(48*len(data)+allowance) {
			t.Errorf("%d bytes allocated %d", len(data), spent)
		}
	}
}

func TestLoadOfAGoodTableIsBounded(t *testing.T) {
	data := encodeTable(t, bigTable(3000))
	spent := allocated(t, func() {
		if _, err := Load(bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%.1f times the input", float64(spent)/float64(len(data)))
	if spent > uint64(16*len(data)+allowance) {
		t.Errorf("%d bytes allocated %d", len(data), spent)
	}
}

const evidencePrefix = `{"evidence":{`

func manyValues(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteByte('"')
		for ; i > 0; i /= 26 {
			b.WriteByte('a' + byte(i%26))
		}
		b.WriteString(`":0,`)
	}
	return b.String()
}

func headerJSON(t *testing.T) string {
	line := strings.Split(string(encodeTable(t, testTable())), "\n")[3]
	return strings.TrimSuffix(strings.TrimPrefix(line, `"header": `), ",")
}
