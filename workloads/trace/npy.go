package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// npyMagic begins a .npy file (numpy/lib/format.py). A version (two bytes), the length of the
// header, and the header (a Python dict) follow.
//
// We do not use github.com/sbinet/npyio v0.6.0: it lacks float16 and version 3, and allocates any
// length that a header claims.
const npyMagic = "\x93NUMPY"

// maxHeader bounds the bytes of a header. NumPy has the same bound by default.
const maxHeader = 10_000

var (
	npyDescr   = regexp.MustCompile(`'descr':\s*'([<>|=])([a-z])(\d{1,2})'`)
	npyFortran = regexp.MustCompile(`'fortran_order':\s*(True|False)`)
	npyShape   = regexp.MustCompile(`'shape':\s*\(([\d, L]*)\)`)
)

func openNPY(path string, o Options) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	a, start, err := npyHeader(f)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if n, err := elements(a.shape); err != nil {
		return nil, err
	} else if want := start + n*int64(a.elem.size); info.Mode().IsRegular() && info.Size() < want {
		return nil, fmt.Errorf("truncated: %d bytes, shape %v of %s needs %d", info.Size(), a.shape, a.elem, want)
	}
	a.open = after(start, func() (io.ReadCloser, error) { return os.Open(path) })
	if strings.HasPrefix(filepath.Base(path), "moe_load") {
		a.name = "moe_load" // vllm-ascend names the file, not the array
	}
	return fromArrays([]*array{a}, nil, o)
}

// npyHeader reads the header. The elements begin at the offset `start`.
func npyHeader(r io.Reader) (a *array, start int64, err error) {
	var pre [12]byte
	if _, err := io.ReadFull(r, pre[:10]); err != nil || string(pre[:6]) != npyMagic {
		return nil, 0, errors.New("not a .npy file: the magic word is missing")
	}
	length := int64(binary.LittleEndian.Uint16(pre[8:]))
	start = 10
	switch pre[6] {
	case 1:
	case 2, 3:
		if _, err := io.ReadFull(r, pre[10:]); err != nil {
			return nil, 0, errors.New(".npy header: truncated")
		}
		length, start = int64(binary.LittleEndian.Uint32(pre[8:])), 12
	default:
		return nil, 0, fmt.Errorf(".npy header: version %d is unknown", pre[6])
	}
	if length > maxHeader {
		return nil, 0, fmt.Errorf(".npy header: %d bytes, the bound is %d", length, maxHeader)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, 0, errors.New(".npy header: truncated")
	}
	a, err = parseHeader(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, 0, fmt.Errorf(".npy header: %w", err)
	}
	return a, start + length, nil
}

func parseHeader(s string) (*array, error) {
	descr, fortran, shape := npyDescr.FindStringSubmatch(s), npyFortran.FindStringSubmatch(s), npyShape.FindStringSubmatch(s)
	switch {
	case !strings.HasPrefix(s, "{") || !strings.HasSuffix(s, "}"):
		return nil, fmt.Errorf("%.60q is not a dict", s)
	case descr == nil:
		return nil, errors.New("descr is not a plain numeric type; save integers, for example a.astype('int32')")
	case fortran == nil || shape == nil:
		return nil, errors.New("fortran_order or shape is missing")
	}
	a := &array{elem: elem{kind: descr[2][0], big: descr[1] == ">"}}
	a.elem.size, _ = strconv.Atoi(descr[3])
	if descr[2] == "b" || !a.elem.valid() {
		return nil, fmt.Errorf("type %s%s; save integers, for example a.astype('int32')", descr[2], descr[3])
	}
	for _, d := range strings.Split(shape[1], ",") {
		if d = strings.TrimSuffix(strings.TrimSpace(d), "L"); d == "" {
			continue
		}
		n, err := strconv.Atoi(d)
		if err != nil {
			return nil, fmt.Errorf("shape (%s): %q is not a size", shape[1], d)
		}
		a.shape = append(a.shape, n)
	}
	if fortran[1] == "True" && len(a.shape) > 1 {
		return nil, errors.New("the array is in Fortran order; save np.ascontiguousarray(a)")
	}
	if len(a.shape) == 0 || len(a.shape) > 4 {
		return nil, fmt.Errorf("shape (%s): one to four axes are read", shape[1])
	}
	return a, nil
}

// writeNPYHeader writes a header of version 1. All headers have the same length, so that a later
// call can replace the header.
func writeNPYHeader(w io.Writer, descr string, rows int64, k int) error {
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d), }", descr, rows, k)
	head := append([]byte(npyMagic), 1, 0, 118, 0)
	_, err := fmt.Fprintf(w, "%s%-117s\n", head, dict)
	return err
}
