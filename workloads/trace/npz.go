package trace

import (
	"archive/zip"
	"errors"
	"fmt"
	"strings"
)

// maxMembers bounds an archive's directory.
const maxMembers = 1 << 16

// openNPZ reads a .npz: a zip of .npy members. The members' names tell ids,
// counts and weights apart.
func openNPZ(path string, o Options) (*Reader, error) {
	z, err := openZip(path)
	if err != nil {
		return nil, err
	}
	var all []*array
	for _, m := range z.File {
		name, ok := strings.CutSuffix(m.Name, ".npy")
		if !ok {
			continue
		}
		a, err := npzMember(m)
		if err != nil {
			z.Close()
			return nil, fmt.Errorf("%.40q: %w", m.Name, err)
		}
		a.name = name
		all = append(all, a)
	}
	return fromArchive(z, all, o)
}

func openZip(path string) (*zip.ReadCloser, error) {
	z, err := zip.OpenReader(path)
	if err != nil {
		return nil, err
	}
	if len(z.File) > maxMembers {
		z.Close()
		return nil, fmt.Errorf("%d members, the bound is %d", len(z.File), maxMembers)
	}
	return z, nil
}

// fromArchive makes a Reader that closes z.
func fromArchive(z *zip.ReadCloser, all []*array, o Options) (*Reader, error) {
	main, weights, err := pick(all, o)
	var r *Reader
	if err == nil {
		r, err = fromArrays(main, weights, o)
	}
	if err == nil {
		err = r.toLogical(main[0], all, o)
	}
	if err != nil {
		z.Close()
		return nil, err
	}
	arrays := r.close
	r.close = func() error {
		if arrays == nil {
			return z.Close()
		}
		return errors.Join(arrays(), z.Close())
	}
	return r, nil
}

func npzMember(m *zip.File) (*array, error) {
	in, err := m.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	a, start, err := npyHeader(in)
	if err != nil {
		return nil, err
	}
	a.open = after(start, m.Open)
	return a, nil
}
