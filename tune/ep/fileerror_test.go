package ep

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

func TestFileError(t *testing.T) {
	const name, instead = "nowhere.json", "sweep makes one"
	_, missing := os.ReadFile(name)
	_, folder := os.ReadFile(".")
	_, below := os.ReadFile("fileerror.go/below")
	denied := &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	broken := &fs.PathError{Op: "read", Path: name, Err: syscall.EIO}
	for _, c := range []struct {
		err  error
		want string
	}{
		{missing, "nowhere.json: no such file or directory; sweep makes one"},
		{fmt.Errorf("reading: %w", missing), "nowhere.json: no such file or directory; sweep makes one"},
		{folder, ".: is a directory; sweep makes one"},
		{below, "fileerror.go/below: not a directory; sweep makes one"},
		{denied, "nowhere.json: permission denied"},
		{fmt.Errorf("layer 3: %w", broken), "nowhere.json: layer 3: read nowhere.json: input/output error"},
		{errors.New("tokens: 3 is odd"), "nowhere.json: tokens: 3 is odd"},
	} {
		if got := FileError(name, c.err, instead); got.Error() != c.want || errors.Is(c.err, fs.ErrNotExist) != errors.Is(got, fs.ErrNotExist) {
			t.Errorf("%v, want %s", got, c.want)
		}
	}
	if got := FileError(name, nil, instead); got != nil {
		t.Errorf("%v without an error", got)
	}
}
