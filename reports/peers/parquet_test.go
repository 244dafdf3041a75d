package peers

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"github.com/epbench/epbench/tune/bounded"
)

type textRow struct {
	Text string `parquet:"text,dict"`
	N    int64  `parquet:"n"`
}

func parquetFile(t *testing.T, codec compress.Codec, rows []textRow) []byte {
	t.Helper()
	var out bytes.Buffer
	w := parquet.NewGenericWriter[textRow](&out, parquet.Compression(codec))
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestParquetCodecs(t *testing.T) {
	rows := []textRow{{"a", 1}, {"b", 2}, {"a", 3}}
	for name, codec := range map[string]compress.Codec{"none": &parquet.Uncompressed, "snappy": &parquet.Snappy, "gzip": &parquet.Gzip, "zstd": &parquet.Zstd} {
		data := parquetFile(t, codec, rows)
		got, err := parquetRows(data, bounded.New(int64(len(data))))
		if err != nil || fmt.Sprint(got) != "[map[n:1 text:a] map[n:2 text:b] map[n:3 text:a]]" {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	data := parquetFile(t, &parquet.Brotli, rows)
	if _, err := parquetRows(data, bounded.New(0)); err == nil || !strings.Contains(err.Error(), "write it with Snappy") {
		t.Errorf("brotli: %v", err)
	}
}

// TestParquetLies: false sizes are refused before memory is allocated.
func TestParquetLies(t *testing.T) {
	long := []textRow{}
	for range 20_000 {
		long = append(long, textRow{Text: strings.Repeat("x", 1<<16)})
	}
	whole := parquetFile(t, &parquet.Zstd, long)
	small := parquetFile(t, &parquet.Gzip, []textRow{{"a", 1}})
	footer := func(body ...byte) []byte {
		out := append([]byte("PAR1"), body...)
		return append(binary.LittleEndian.AppendUint32(out, uint32(len(body))), "PAR1"...)
	}
	deep := bytes.Repeat([]byte{0x1c}, 64) // structs in structs
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"one text in every row": {whole, "more memory than is allowed for a file of"},
		"a list of 2^31":        {footer(0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07), "a list claims 2147483647 elements"},
		"a list of bytes":       {footer(append([]byte{0x19, 0xf3, 0x80, 0x80, 0x40}, make([]byte, 1<<20)...)...), "footer: more memory"},
		"a text of 2^40":        {footer(0x18, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20), "ends within a header"},
		"structs without end":   {footer(deep...), "nested too deeply"},
		"a footer of 4 GiB":     {append([]byte("PAR1"), 0xff, 0xff, 0xff, 0xff, 'P', 'A', 'R', '1'), "the footer has 4294967295 bytes"},
		"a number without end":  {footer(0x15, 0xff, 0xff), "a number without end"},
		"no footer":             {[]byte("PAR1"), "no footer"},
		"cut in the middle":     {small[:len(small)/2], "damaged parquet file"},
	} {
		if _, err := parquetRows(c.data, bounded.New(int64(len(c.data)))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for i := range small {
		bad := bytes.Clone(small)
		bad[i] ^= 0xff
		_, _ = parquetRows(bad, bounded.New(int64(len(bad)))) // must not panic
	}
}
