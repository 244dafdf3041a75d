package ep

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// FileError returns an error about a file that the user named, or nil if err is nil. If there is no such file, or a
// directory in its place, the error ends with what the user can do instead. For other errors, such as a lack of
// permission, this advice would not help.
func FileError(path string, err error, instead string) error {
	var system *fs.PathError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &system) && notThere(system):
		return fmt.Errorf("%s: %w; %s", system.Path, system.Err, instead)
	case err == system:
		return fmt.Errorf("%s: %w", system.Path, system.Err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

func notThere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENOTDIR)
}
