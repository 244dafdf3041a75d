package worker

import (
	"errors"
	"fmt"
	"os"

	"mvdan.cc/sh/v3/shell"
)

// Loopback is the Listen of ranks on this host.
const Loopback = "127.0.0.1:0"

// Command says how a worker is started.
type Command struct {
	Argv []string // program and arguments; the program is looked up on PATH

	// Listen is the address, host or host:port, that ranks connect back to. With ""
	// the worker speaks over its standard input and output.
	Listen string

	// Said gets the lines of free text on the worker's standard output; may be nil.
	Said func(line string)
}

// Split splits a command line as a shell does: quotes are honoured, $NAME is
// replaced from the environment, and nothing else is expanded.
func Split(line string) ([]string, error) {
	argv, err := shell.Fields(line, os.Getenv)
	if err == nil && len(argv) == 0 {
		err = errors.New("no worker command given")
	}
	if err != nil {
		return nil, fmt.Errorf("command %q: %w", line, err)
	}
	return argv, nil
}
