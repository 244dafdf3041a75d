package trace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

type opener func(path string, o Options) (*Reader, error)

var formats = map[string]opener{
	".npy":         openNPY,
	".npz":         openNPZ,
	".pt":          openPT,
	".pth":         openPT,
	".csv":         openCSV,
	".jsonl":       openJSONL,
	".json":        openJSON,
	".safetensors": openSafetensors,
	".log":         openEPLBLog,
}

// convert says how to convert files that Open does not read.
var convert = map[string]string{
	".parquet": "numpy.save(out, numpy.stack(pandas.read_parquet(path)[column]))",
}

// WayOut says what to do if a trace cannot be opened.
const WayOut = "give a recorded routing; epbench workload export writes one"

// Open opens a trace by its extension. Every error is one line that begins with the path.
func Open(path string, o Options) (*Reader, error) {
	ext := strings.ToLower(filepath.Ext(path))
	open, ok := formats[ext]
	if how := convert[ext]; how != "" {
		return nil, fmt.Errorf("%s: %s files are not read; save the array as .npy: %s", path, ext, how)
	}
	if !ok {
		return nil, fmt.Errorf("%s: extension %.10q is unknown, use .npy, .npz, .pt, .csv, .jsonl, .json or .safetensors", path, ext)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s: is a directory; %s", path, WayOut)
	}
	r, err := open(path, o)
	if err != nil {
		return nil, ep.FileError(path, err, WayOut)
	}
	r.path, r.layer = path, o.Layer
	return r, nil
}

// at puts the path before an error, except io.EOF and errors that already have a path.
func at(path string, err error) error {
	var pe *fs.PathError
	if err == nil || err == io.EOF || errors.As(err, &pe) {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}
