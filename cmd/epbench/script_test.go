package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain runs the tests. In scripts, epbench is this test binary.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"epbench": func() {
			steadyHere()
			foundHere()
			os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
		},
	})
}

// TestScript runs the archives in testdata/script. $TESTDATA is the testdata folder of the repository. EPBENCH_UPDATE=1
// rewrites expected outputs.
func TestScript(t *testing.T) {
	data, err := filepath.Abs(filepath.Join("..", "..", "testdata"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
		Setup: func(e *testscript.Env) error {
			e.Setenv("TESTDATA", data)
			e.Setenv("PATH", withPython(e.Getenv("PATH")))
			return nil
		},
		UpdateScripts: os.Getenv("EPBENCH_UPDATE") == "1",
	})
}

// withPython puts the folder of the Python interpreter behind the first folder of a PATH. Under pyenv, python3 is a shell
// program that chooses a version, and it takes longer than Python's own start. The first folder has the tested epbench;
// Python's folder may have an installed epbench.
func withPython(path string) string {
	dir := pythonDir()
	if dir == "" {
		return path
	}
	sep := string(filepath.ListSeparator)
	tested, others, _ := strings.Cut(path, sep)
	return tested + sep + dir + sep + others
}

var pythonDir = sync.OnceValue(func() string {
	out, err := exec.Command("python3", "-c", "import os, sys; print(os.path.dirname(sys.executable))").Output()
	if err != nil {
		return "" // the scripts say that python3 is missing
	}
	return strings.TrimSpace(string(out))
})

// exits runs epbench and requires an exit code, as in "exits 3 compare a b".
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec("epbench", args[1:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
