package ep

import (
	"errors"
	"fmt"
	"io/fs"
)

// FileError returns an error about a file that the user named, or nil if err is nil. If the file cannot be opened or
// read, the error ends with what the user can do instead.
func FileError(path string, err error, instead string) error {
	var system *fs.PathError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &system):
		return fmt.Errorf("%s: %w; %s", system.Path, system.Err, instead)
	}
	return fmt.Errorf("%s: %w", path, err)
}
