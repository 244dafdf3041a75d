package workloads

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads/trace"
)

type fileState struct {
	path  string
	size  int64
	mtime time.Time
}

var digests sync.Map

func fileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", ep.FileError(path, err, trace.WayOut)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s: a trace must be a regular file; %s", path, trace.WayOut)
	}
	state := fileState{path, info.Size(), info.ModTime()}
	if known, ok := digests.Load(state); ok {
		return known.(string), nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	digest := hex.EncodeToString(h.Sum(nil))[:ep.DigestDigits]
	digests.Store(state, digest)
	return digest, nil
}
