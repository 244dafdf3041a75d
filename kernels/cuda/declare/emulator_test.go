package declare

import (
	"bufio"
	"bytes"
	"crypto/sha256"
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
	"time"
)

// errNoEmulator means that this host cannot compile the emulator. The wrapping error gives the reason.
var errNoEmulator = errors.New("no emulation here")

// emulator compiles CUDA sources with a host compiler and runs them on the CPU. A block is an OS thread; a device
// thread is a fiber. Goroutines must not compile the same source with the same macros at the same time.
type emulator struct {
	dir   string
	flags []string // for device code, such as -fsanitize=thread
}

// newEmulator compiles the harness, the program that runs device code. `flags` are compiler flags for device code.
// Later runs reuse the folder, whose name is a hash of all sources.
func newEmulator(flags ...string) (*emulator, error) {
	if _, err := exec.LookPath("g++"); err != nil {
		return nil, fmt.Errorf("%w: it needs g++ with C++20, but there is no g++ on PATH", errNoEmulator)
	}
	h := sha256.New()
	fmt.Fprintln(h, flags)
	for _, folder := range sourceFolders {
		if err := hashFolder(h, folder); err != nil {
			return nil, err
		}
	}
	e := &emulator{filepath.Join(os.TempDir(), "epbench-emul-"+hex.EncodeToString(h.Sum(nil)[:8])), flags}
	if _, err := os.Stat(e.path("harness")); err == nil {
		return e, nil
	}
	if err := os.MkdirAll(e.dir, 0o755); err != nil {
		return nil, err
	}
	return e, e.build("harness", e.hostArgs()...)
}

var sourceFolders = []string{"emul/src", "include", "kernels"}

func nativeFile(name string) string { return filepath.Join("..", "..", "..", "native", name) }

func hashFolder(w io.Writer, name string) error {
	tree := os.DirFS(nativeFile(name))
	return fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(tree, path)
		fmt.Fprintf(w, "%s %d\n%s", path, len(text), text)
		return err
	})
}

// hostArgs returns the compiler's arguments for the harness, without sanitizers.
func (e *emulator) hostArgs() []string {
	args := []string{"-O2", "-rdynamic", nativeFile("emul/src/harness.cpp"), nativeFile("emul/src/fiber.cpp"), "-ldl", "-lpthread"}
	if slices.Contains(e.flags, "-fsanitize=thread") {
		args = append(args, "-DEP_EMUL_TSAN", "-ltsan")
	}
	if slices.Contains(e.flags, "-fsanitize=address") {
		args = append(args, "-lasan")
	}
	return args
}

func (e *emulator) path(name string) string { return filepath.Join(e.dir, name) }

// compile compiles source (a path under native/kernels) to a shared object and returns its path. Each of `defines` is
// NAME=VALUE.
func (e *emulator) compile(source string, defines []string) (string, error) {
	sum := sha256.Sum256([]byte(source + "\n" + strings.Join(defines, "\n")))
	name := hex.EncodeToString(sum[:8]) + ".so"
	if _, err := os.Stat(e.path(name)); err == nil {
		return e.path(name), nil
	}
	optimise := "-Og" // compiles faster than -O1, and the emulator spends most of its time outside device code
	if len(e.flags) > 0 {
		optimise = "-O1" // with a sanitizer device code takes most of the time
	}
	// These flags save a sixth of the compile time.
	args := []string{optimise, "-fno-exceptions", "-fno-asynchronous-unwind-tables", "-nostdlib", "-shared", "-fPIC", "-DEP_EMULATE", "-ffp-contract=off",
		"-Wall", "-Wno-unknown-pragmas", "-Wno-unused-function", "-Werror",
		// A misaligned vector access traps, as on the device.
		"-fsanitize=alignment", "-fsanitize-undefined-trap-on-error"}
	args = append(args, e.flags...)
	for _, d := range defines {
		args = append(args, "-D"+d)
	}
	return e.path(name), e.build(name, append(args, "-x", "c++", nativeFile("kernels/"+source), "-lgcc")...)
}

// build renames the compiler's output at the end, so that an interrupted build leaves no file that looks complete.
func (e *emulator) build(name string, args ...string) error {
	tmp, err := os.CreateTemp(e.dir, name+".*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	tmp.Close()
	base := []string{"-std=c++20", "-o", tmp.Name()}
	if len(e.flags) > 0 {
		base = append(base, "-g1")
	}
	for _, inc := range sourceFolders {
		base = append(base, "-I"+nativeFile(inc))
	}
	if out, err := exec.Command("g++", append(base, args...)...).CombinedOutput(); err != nil {
		if bytes.Contains(out, []byte("cannot find -l")) {
			return fmt.Errorf("%w: g++ lacks a library: %s", errNoEmulator, out)
		}
		return fmt.Errorf("g++ %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return os.Rename(tmp.Name(), e.path(name))
}

// run performs one job, a list of statements that harness.cpp explains. Errors contain the emulator's output.
func (e *emulator) run(patience time.Duration, statements []string) error {
	p, err := e.start()
	if err != nil {
		return err
	}
	return errors.Join(p.perform(patience, statements), p.close())
}

// emulation is a process that performs one job after another, which is faster than a process for each job.
type emulation struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	log bytes.Buffer
}

func (e *emulator) start() (*emulation, error) {
	p := &emulation{cmd: exec.Command(e.path("harness"))}
	p.cmd.Env = append(os.Environ(), "TSAN_OPTIONS=halt_on_error=1 exitcode=66", "ASAN_OPTIONS=detect_leaks=0")
	p.cmd.Stderr = &p.log
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	return p, p.cmd.Start()
}

// perform performs a job. After the time `patience`, it kills the process.
func (p *emulation) perform(patience time.Duration, statements []string) error {
	timer := time.AfterFunc(patience, func() { p.cmd.Process.Kill() })
	defer timer.Stop()
	_, err := io.WriteString(p.in, strings.Join(statements, "\n")+"\nclear\ndone\n")
	if line, _ := p.out.ReadString('\n'); line == "done\n" {
		return nil
	}
	return errors.Join(fmt.Errorf("emulation: the job did not end: %w", p.close()), err)
}

func (p *emulation) close() error {
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("emulation: %w\n%s", err, p.log.Bytes())
	}
	return nil
}
