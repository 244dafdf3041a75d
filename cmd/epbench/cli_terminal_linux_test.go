package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal opens a pseudo-terminal. read closes the terminal and returns its output.
func openTerminal(t *testing.T, width uint16) (f *os.File, read func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: width})
	}
	if err == nil {
		f, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skip(err)
	}
	said := make(chan string)
	go func() {
		var b bytes.Buffer
		io.Copy(&b, master) // fails after the last writer closes
		said <- strings.ReplaceAll(b.String(), "\r\n", "\n")
	}()
	return f, func() string {
		f.Close()
		defer master.Close()
		return <-said
	}
}

func TestErrorsAreWrapped(t *testing.T) {
	for _, width := range []uint16{45, 60} {
		errors, read := openTerminal(t, width)
		code := run(t.Context(), []string{"sweep", "--backend", "cpu", "--strategy", "tabu"}, io.Discard, errors)
		text := read()
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if code != exitUsage || len(lines) < 2 || !strings.HasPrefix(lines[0], `epbench: --strategy: unknown "tabu", use one`) {
			t.Errorf("exit code %d: %s", code, text)
		}
		for _, line := range lines {
			if len(line) > int(width) {
				t.Errorf("a line has %d columns, the terminal %d: %s", len(line), width, line)
			}
		}
	}
}

// TestExportToATerminal: table export refuses to print Parquet to a terminal.
func TestExportToATerminal(t *testing.T) {
	out, read := openTerminal(t, 80)
	var errors bytes.Buffer
	args := []string{"table", "export", "--format", "aiconfigurator", "--table", filepath.Join("..", "..", "testdata", "peers", "h100x2", "deepep")}
	code := run(t.Context(), args, out, &errors)
	if text := read(); code != exitUsage || text != "" || !strings.Contains(errors.String(), "-o FILE is required: aiconfigurator is not text") {
		t.Errorf("exit code %d, %q on the terminal, %s", code, text, errors.String())
	}
}
