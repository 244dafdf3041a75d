package peers

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/epbench/epbench/tune/bounded"
)

const maxRows = 1 << 20

// parquetRows reads a flat Parquet file. It first checks the sizes in the footer and in the page headers, because the
// library allocates memory of these sizes.
func parquetRows(data []byte, cost *bounded.Budget) (rows []map[string]string, err error) {
	defer func() {
		if what := recover(); what != nil {
			rows, err = nil, fmt.Errorf("%w: %v", errParquet, what)
		}
	}()
	if err := checkFooter(data, cost); err != nil {
		return nil, err
	}
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, err
	}
	if n := file.NumRows(); n > maxRows {
		return nil, fmt.Errorf("the file has %d rows, the limit is %d", n, maxRows)
	}
	for _, group := range file.Metadata().RowGroups {
		for i := range group.Columns {
			if err := checkPages(data, &group.Columns[i].MetaData, cost); err != nil {
				return nil, fmt.Errorf("column %.40q: %w", strings.Join(group.Columns[i].MetaData.PathInSchema, "."), err)
			}
		}
	}
	return readRows(file, cost)
}

func readRows(file *parquet.File, cost *bounded.Budget) (rows []map[string]string, err error) {
	columns := file.Schema().Columns()
	in := parquet.NewReader(file)
	defer in.Close()
	for block := make([]parquet.Row, 256); ; {
		n, err := in.ReadRows(block)
		for _, r := range block[:n] {
			row := make(map[string]string, len(columns))
			for _, v := range r {
				if v.IsNull() {
					continue
				}
				bytes := fieldBytes
				if k := v.Kind(); k == parquet.ByteArray || k == parquet.FixedLenByteArray {
					bytes += len(v.ByteArray())
				}
				if err := cost.Allocate("rows", int64(bytes)); err != nil {
					return nil, err
				}
				row[strings.Join(columns[v.Column()], ".")] = v.String()
			}
			rows = append(rows, row)
		}
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

var errParquet = errors.New("damaged parquet file")

// checkFooter returns an error if a list or a text is too large for the footer or the budget.
func checkFooter(data []byte, cost *bounded.Budget) error {
	end := len(data) - 8
	if end < 4 || string(data[end+4:]) != "PAR1" {
		return fmt.Errorf("%w: it has no footer", errParquet)
	}
	n := int(binary.LittleEndian.Uint32(data[end:]))
	if n > end-4 {
		return fmt.Errorf("%w: the footer has %d bytes, but the file has only %d", errParquet, n, len(data))
	}
	t := thrift{in: data[end-n : end], cost: cost}
	return t.structure(0, func([]int, int64) {})
}

// checkPages returns an error if a page claims a wrong size, or more memory than the budget.
func checkPages(data []byte, c *format.ColumnMetaData, cost *bounded.Budget) error {
	at := c.DataPageOffset
	if c.DictionaryPageOffset > 0 {
		at = min(at, c.DictionaryPageOffset)
	}
	if at < 0 || c.TotalCompressedSize < 0 || at > int64(len(data)) || c.TotalCompressedSize > int64(len(data))-at {
		return fmt.Errorf("%w: pages outside the file", errParquet)
	}
	for in := data[at : at+c.TotalCompressedSize]; len(in) > 0; {
		t, p := thrift{in: in, cost: cost}, pageHeader{}
		if err := t.structure(0, p.set); err != nil {
			return err
		}
		if p.packed < 0 || p.packed > int64(len(t.in)) || p.unpacked < 0 || p.values < 0 || p.values > maxRows {
			return fmt.Errorf("%w: a page claims %d bytes, %d bytes unpacked and %d values", errParquet, p.packed, p.unpacked, p.values)
		}
		if err := cost.Allocate("a page", p.unpacked); err != nil {
			return err
		}
		if err := checkPacked(c.Codec, t.in[:p.packed], p.unpacked); err != nil {
			return err
		}
		cost.Free(p.unpacked)
		if err := cost.Work("pages", p.unpacked); err != nil {
			return err
		}
		in = t.in[p.packed:]
	}
	return nil
}

// checkPacked returns an error if a page unpacks to more bytes than it claims. The library has no such check.
func checkPacked(codec format.CompressionCodec, page []byte, unpacked int64) error {
	var in io.Reader
	var err error
	switch codec {
	case format.Uncompressed:
		return nil
	case format.Snappy: // the library unpacks at most the size that the page's first bytes give
		if n, used := binary.Uvarint(page); len(page) > 0 && (used <= 0 || n > uint64(unpacked)) {
			return fmt.Errorf("%w: a page that claims %d bytes unpacks to %d", errParquet, unpacked, n)
		}
		return nil
	case format.Gzip:
		in, err = gzip.NewReader(bytes.NewReader(page))
	case format.Zstd:
		var z *zstd.Decoder
		if z, err = zstd.NewReader(bytes.NewReader(page), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow)); err == nil {
			defer z.Close()
			in = z
		}
	default:
		err = fmt.Errorf("the file is compressed with %v; write it with Snappy, Zstd, Gzip or without compression", codec)
	}
	if err != nil {
		return err
	}
	if n, err := io.CopyN(io.Discard, in, unpacked+1); err != io.EOF {
		return cmp.Or(err, fmt.Errorf("%w: a page that claims %d bytes unpacks to %d or more", errParquet, unpacked, n))
	}
	return nil
}

const maxWindow = 8 << 20

// pageHeader holds sizes from a PageHeader (github.com/apache/parquet-format).
type pageHeader struct{ unpacked, packed, values int64 }

func (p *pageHeader) set(path []int, v int64) {
	switch {
	case len(path) == 1 && path[0] == 2:
		p.unpacked = v
	case len(path) == 1 && path[0] == 3:
		p.packed = v
	case len(path) == 2 && (path[0] == 5 || path[0] == 7 || path[0] == 8) && path[1] == 1: // data page, dictionary, data page v2
		p.values = v
	}
}

// thrift reads a struct in Thrift's compact protocol
// (github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md).
type thrift struct {
	in   []byte
	cost *bounded.Budget
	path []int
}

const (
	thriftTrue, thriftFalse, thriftByte, thriftDouble, thriftBinary = 1, 2, 3, 7, 8
	thriftList, thriftSet, thriftMap, thriftStruct                  = 9, 10, 11, 12
)

const elementBytes = 1 << 10

func (t *thrift) structure(depth int, number func(path []int, v int64)) error {
	if depth > 16 {
		return fmt.Errorf("%w: nested too deeply", errParquet)
	}
	for id := 0; ; {
		h, err := t.octet()
		if err != nil || h == 0 {
			return err
		}
		id += int(h >> 4)
		if h>>4 == 0 {
			v, err := t.varint()
			if err != nil {
				return err
			}
			id = int(int16(v>>1) ^ -int16(v&1))
		}
		t.path = append(t.path, id)
		if err := t.value(h&15, depth, number); err != nil {
			return err
		}
		t.path = t.path[:len(t.path)-1]
	}
}

func (t *thrift) value(kind byte, depth int, number func([]int, int64)) error {
	switch kind {
	case thriftTrue, thriftFalse:
		return nil
	case thriftByte:
		return t.skip(1)
	case 4, 5, 6: // i16, i32, i64
		v, err := t.varint()
		number(t.path, int64(v>>1)^-int64(v&1))
		return err
	case thriftDouble:
		return t.skip(8)
	case thriftBinary:
		n, err := t.varint()
		if err != nil {
			return err
		}
		if err := t.skip(n); err != nil {
			return err
		}
		return t.cost.Allocate("footer", int64(n))
	case thriftList, thriftSet:
		return t.list(depth, number)
	case thriftStruct:
		return t.structure(depth+1, number)
	}
	return fmt.Errorf("%w: type %d", errParquet, kind)
}

func (t *thrift) list(depth int, number func([]int, int64)) error {
	h, err := t.octet()
	if err != nil {
		return err
	}
	n := uint64(h >> 4)
	if n == 15 {
		if n, err = t.varint(); err != nil {
			return err
		}
	}
	if n > uint64(len(t.in)) { // an element has at least one byte
		return fmt.Errorf("%w: a list claims %d elements", errParquet, n)
	}
	if err := t.cost.Array("footer", int64(n), elementBytes); err != nil {
		return err
	}
	for range n {
		kind := h & 15
		if kind == thriftTrue || kind == thriftFalse {
			kind = thriftByte // a boolean in a list has one byte
		}
		if err := t.value(kind, depth+1, func([]int, int64) {}); err != nil {
			return err
		}
	}
	return nil
}

func (t *thrift) octet() (byte, error) {
	if len(t.in) == 0 {
		return 0, fmt.Errorf("%w: it ends within a header", errParquet)
	}
	b := t.in[0]
	t.in = t.in[1:]
	return b, nil
}

func (t *thrift) varint() (uint64, error) {
	v, n := binary.Uvarint(t.in)
	if n <= 0 {
		return 0, fmt.Errorf("%w: a number without end", errParquet)
	}
	t.in = t.in[n:]
	return v, nil
}

func (t *thrift) skip(n uint64) error {
	if n > uint64(len(t.in)) {
		return fmt.Errorf("%w: it ends within a header", errParquet)
	}
	t.in = t.in[n:]
	return nil
}
