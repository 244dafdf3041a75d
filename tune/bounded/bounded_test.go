package bounded

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
)

func TestAllocate(t *testing.T) {
	b := New(10)
	if err := b.Array("rows", 1<<20, ObjectBytes); err != nil {
		t.Fatal(err)
	}
	err := b.Array("rows", 1<<20, ObjectBytes)
	if err == nil || err.Error() != "rows: more memory than is allowed for a file of 10 bytes; the limit is 96 MiB" {
		t.Errorf("%v", err)
	}
	b.Free(ObjectBytes << 20)
	if err := b.Array("rows", 1<<20, ObjectBytes); err != nil {
		t.Error(err)
	}
	for _, n := range []int64{-1, math.MinInt64, math.MaxInt64} {
		if New(1<<40).Array("rows", n, 8) == nil {
			t.Errorf("%d rows are allowed", n)
		}
	}
	if err := New(1<<30).Allocate("text", 3<<30); err != nil {
		t.Errorf("three times the size of a large file: %v", err)
	}
	if New(math.MaxInt64).Allocate("text", math.MaxInt64) != nil {
		t.Error("the bound of a file of 2^63-1 bytes overflows")
	}
}

func TestJSON(t *testing.T) {
	for text, want := range map[string]bool{"{},": false, "[],": false, "1,": false, `"` + strings.Repeat("x", 4000) + `",`: true} {
		all := []byte(strings.Repeat(text, 32<<20/len(text)))
		if err := New(int64(len(all))).JSON("rows", all); (err == nil) != want {
			t.Errorf("%.20s: %v", text, err)
		}
	}
}

func TestReader(t *testing.T) {
	b := New(1 << 20)
	n, err := io.Copy(io.Discard, b.Reader("ids.npy", zeros{}))
	if err == nil || !strings.HasPrefix(err.Error(), "ids.npy: unpacks to more than 128 MiB, and the file has 1 MiB") {
		t.Errorf("%v", err)
	}
	if n > leastWork {
		t.Errorf("%d bytes were read", n)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestReadAll(t *testing.T) {
	text := bytes.Repeat([]byte("text"), 100_000)
	for _, r := range []io.Reader{bytes.NewReader(text), iotest.DataErrReader(bytes.NewReader(text)), iotest.HalfReader(bytes.NewReader(text))} {
		b := New(0)
		got, err := b.ReadAll("file", r, int64(len(text)))
		if err != nil || !bytes.Equal(got, text) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		if held := leastMemory - b.memory; held != int64(cap(got)) {
			t.Errorf("%d bytes are charged, %d are held", held, cap(got))
		}
	}
	if _, err := New(0).ReadAll("file", bytes.NewReader(text), int64(len(text))-1); err == nil || err.Error() != "file: larger than 390 KiB" {
		t.Errorf("%v", err)
	}
	if _, err := New(0).ReadAll("file", zeros{}, math.MaxInt64-1); err == nil || !strings.Contains(err.Error(), "more memory than") {
		t.Errorf("%v", err)
	}
	if got, err := New(0).ReadAll("file", strings.NewReader(""), 0); err != nil || len(got) != 0 {
		t.Errorf("%q, %v", got, err)
	}
	broken := errors.New("broken")
	if _, err := New(0).ReadAll("file", iotest.ErrReader(broken), 9); err != broken {
		t.Errorf("%v", err)
	}
}
