// Package emul compiles our CUDA device sources with a host compiler and runs
// them on the CPU: every block an OS thread, every device thread a fiber,
// every rank a grid of its own, all at once. It exists for tests.
package emul

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/epbench/epbench/native"
)

//go:embed src
var sources embed.FS

// ErrUnavailable says that this host cannot emulate, or not with these flags; the
// error that wraps it says why.
var ErrUnavailable = errors.New("no emulation here")

// Tools are a compiled emulator and the folder it lives in. Device sources
// compile once per set of defines; Tools may be used by several goroutines as
// long as each compiles other variants.
type Tools struct {
	dir   string
	flags []string // of device code, such as -fsanitize=thread
}

// New unpacks and compiles the emulator under the system's folder for
// temporary files, in a place named by a hash of all sources, so that a second
// run finds everything done. flags are further options for device code.
func New(flags ...string) (*Tools, error) {
	if _, err := exec.LookPath("g++"); err != nil {
		return nil, fmt.Errorf("%w: it needs g++ with C++20, and none is on PATH", ErrUnavailable)
	}
	h := sha256.New()
	fmt.Fprintln(h, flags)
	for _, tree := range []fs.FS{sources, native.Sources} {
		if err := hashTree(h, tree); err != nil {
			return nil, err
		}
	}
	t := &Tools{filepath.Join(os.TempDir(), "epbench-emul-"+hex.EncodeToString(h.Sum(nil)[:8])), flags}
	if _, err := os.Stat(t.path("harness")); err == nil {
		return t, nil
	}
	for sub, tree := range map[string]fs.FS{"emul": sources, "": native.Sources} {
		if err := unpack(tree, filepath.Join(t.dir, sub)); err != nil {
			return nil, err
		}
	}
	return t, t.build("harness", t.hostArgs()...)
}

// hostArgs compile the harness. Sanitizers check device code only; fiber.cpp tells
// them about fibers.
func (t *Tools) hostArgs() []string {
	args := []string{"-O1", "-rdynamic", t.path("emul/src/harness.cpp"), t.path("emul/src/fiber.cpp"), "-ldl", "-lpthread"}
	if slices.Contains(t.flags, "-fsanitize=thread") {
		args = append(args, "-DEP_EMUL_TSAN", "-ltsan")
	}
	if slices.Contains(t.flags, "-fsanitize=address") {
		args = append(args, "-lasan")
	}
	return args
}

func (t *Tools) path(name string) string { return filepath.Join(t.dir, name) }

// Compile makes a shared object of a device source, a path under
// native/kernels, and returns its file name. Defines are NAME=VALUE.
func (t *Tools) Compile(source string, defines []string) (string, error) {
	sum := sha256.Sum256([]byte(source + "\n" + strings.Join(defines, "\n")))
	name := hex.EncodeToString(sum[:8]) + ".so"
	if _, err := os.Stat(t.path(name)); err == nil {
		return t.path(name), nil
	}
	args := []string{"-O1", "-shared", "-fPIC", "-DEP_EMULATE", "-ffp-contract=off",
		"-Wall", "-Wno-unknown-pragmas", "-Wno-unused-function", "-Werror",
		// A misaligned vector access traps, as on the device.
		"-fsanitize=alignment", "-fsanitize-undefined-trap-on-error"}
	args = append(args, t.flags...)
	for _, d := range defines {
		args = append(args, "-D"+d)
	}
	return t.path(name), t.build(name, append(args, "-x", "c++", t.path("kernels/"+source))...)
}

// build runs the compiler and then renames its output, so that an interrupted build
// leaves nothing that looks complete.
func (t *Tools) build(name string, args ...string) error {
	tmp, err := os.CreateTemp(t.dir, name+".*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	tmp.Close()
	base := []string{"-std=c++20", "-o", tmp.Name()}
	if len(t.flags) > 0 {
		base = append(base, "-g1") // sanitizers report lines
	}
	for _, inc := range []string{"emul/src", "include", "kernels"} {
		base = append(base, "-I"+t.path(inc))
	}
	if out, err := exec.Command("g++", append(base, args...)...).CombinedOutput(); err != nil {
		if bytes.Contains(out, []byte("cannot find -l")) {
			return fmt.Errorf("%w: g++ lacks a library: %s", ErrUnavailable, out)
		}
		return fmt.Errorf("g++ %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return os.Rename(tmp.Name(), t.path(name))
}

// Run performs a job: statements as the head of harness.cpp lists them. The
// error holds what the emulator printed.
func (t *Tools) Run(ctx context.Context, statements []string) error {
	cmd := exec.CommandContext(ctx, t.path("harness"))
	cmd.Stdin = strings.NewReader(strings.Join(statements, "\n") + "\n")
	cmd.Env = append(os.Environ(), "TSAN_OPTIONS=halt_on_error=1 exitcode=66", "ASAN_OPTIONS=detect_leaks=0")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("emulation: %w\n%s", err, out.Bytes())
	}
	return nil
}

func hashTree(w io.Writer, tree fs.FS) error {
	return eachFile(tree, func(path string, text []byte) error {
		_, err := fmt.Fprintf(w, "%s %d\n%s", path, len(text), text)
		return err
	})
}

func unpack(tree fs.FS, dir string) error {
	return eachFile(tree, func(path string, text []byte) error {
		to := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o644)
	})
}

func eachFile(tree fs.FS, f func(path string, text []byte) error) error {
	return fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(tree, path)
		if err != nil {
			return err
		}
		return f(path, text)
	})
}
