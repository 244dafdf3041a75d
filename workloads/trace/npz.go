package trace

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/epbench/epbench/tune/bounded"
)

const maxMembers = 1 << 16

// openNPZ reads a .npz: a zip of .npy members. A bad member is an error only if it is picked.
func openNPZ(path string, o Options) (*Reader, error) {
	return openArchive(path, o, func(z *zip.Reader, cost *bounded.Budget) (all []*array, err error) {
		for _, m := range z.File {
			name, ok := strings.CutSuffix(m.Name, ".npy")
			if !ok {
				continue
			}
			a, err := npzMember(m, cost)
			if err != nil {
				a = &array{bad: fmt.Errorf("%.40q: %w", m.Name, err)}
			}
			a.name = name
			all = append(all, a)
		}
		return all, nil
	})
}

func openArchive(path string, o Options, arrays func(z *zip.Reader, cost *bounded.Budget) ([]*array, error)) (*Reader, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	z, err := zip.OpenReader(path)
	if err != nil {
		return nil, err
	}
	var r *Reader
	if len(z.File) > maxMembers {
		err = fmt.Errorf("%d members, the bound is %d", len(z.File), maxMembers)
	} else if all, bad := arrays(&z.Reader, bounded.New(info.Size())); bad != nil {
		err = bad
	} else {
		r, err = fromArchive(all, o)
	}
	if err != nil {
		z.Close()
		return nil, err
	}
	inner := r.close
	r.close = func() error {
		if inner == nil {
			return z.Close()
		}
		return errors.Join(inner(), z.Close())
	}
	return r, nil
}

func fromArchive(all []*array, o Options) (*Reader, error) {
	main, weights, err := pick(all, o)
	if err != nil {
		return nil, err
	}
	r, err := fromArrays(main, weights, o)
	if err != nil {
		return nil, err
	}
	if err := r.toLogical(main[0], all, o); err != nil {
		return nil, err
	}
	return r, r.checkAgainstCounts(main[0], all, o)
}

func npzMember(m *zip.File, cost *bounded.Budget) (*array, error) {
	in, err := m.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	a, start, err := npyHeader(in)
	if err != nil {
		return nil, err
	}
	a.open = unpacked(m, start, cost)
	return a, nil
}

func unpacked(m *zip.File, start int64, cost *bounded.Budget) func() (io.ReadCloser, error) {
	return after(start, func() (io.ReadCloser, error) {
		in, err := m.Open()
		if err != nil {
			return nil, err
		}
		return struct {
			io.Reader
			io.Closer
		}{cost.Reader(m.Name, in), in}, nil
	})
}
