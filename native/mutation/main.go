package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

func main() {
	only := flag.String("only", "", "regular expression; take only faults whose file, description or test name matches it")
	keep := flag.String("keep", "", "keep the copy of the tree in this folder, so that a second run need not prepare again")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := mutateAll(ctx, flag.Args(), *only, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

func mutateAll(ctx context.Context, lists []string, only, keep string) error {
	dir := keep
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "epbench-mutation-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	wanted, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	tree, err := copyTree(ctx, dir)
	if err != nil {
		return err
	}
	for _, path := range lists {
		l, err := readList(path)
		if err != nil {
			return err
		}
		if err := tree.mutate(l, wanted); err != nil {
			return err
		}
	}
	return nil
}

// A workTree is a copy of the repository, in dir/tree.
type workTree struct {
	ctx      context.Context
	dir      string
	prepared map[string]bool
}

// copyTree copies the files that git does not ignore to dir/tree, and links to the CUDA files in .cuda. It does not
// write files that have not changed, so that make does not build them again.
func copyTree(ctx context.Context, dir string) (workTree, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return workTree{}, err
	}
	tree := filepath.Join(dir, "tree")
	list, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return workTree{}, fmt.Errorf("git ls-files: %w", err)
	}
	names := strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00")
	if err := removeOthers(tree, names); err != nil {
		return workTree{}, err
	}
	for _, name := range names {
		if err := copyFile(name, filepath.Join(tree, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return workTree{}, err
		}
	}
	err = sh(ctx, ".", os.Stderr, `set -e
mkdir -p "$0/tree/.cuda" "$0/tmp"
for d in include lib64 12 nvshmem; do
  test ! -e ".cuda/$d" || ln -sfn "$PWD/.cuda/$d" "$0/tree/.cuda/$d"
done`, dir)
	return workTree{ctx, dir, map[string]bool{}}, err
}

// removeOthers removes files that are not among `names`, but keeps bin folders.
func removeOthers(tree string, names []string) error {
	known := map[string]bool{}
	for _, name := range names {
		known[filepath.Join(tree, name)] = true
	}
	err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".cuda" || d.Name() == "bin"):
			return fs.SkipDir
		case !d.IsDir() && !known[path]:
			return os.Remove(path)
		}
		return nil
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(to); err == nil && bytes.Equal(old, text) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode().Perm())
}

func (w workTree) mutate(l List, only *regexp.Regexp) error {
	var s score
	for _, f := range l.Faults {
		if !only.MatchString(f.String() + " " + f.Test) {
			continue
		}
		if err := w.try(l, f, &s); err != nil {
			return err
		}
	}
	return s.print(l.Title)
}

// A score counts faults. A fault counts as late if its test failed only because it exceeded its time limit. A
// survivor is a fault that its test did not notice.
type score struct {
	noticed, late, left, wrong int
	survivors                  []Fault
}

func (w workTree) try(l List, f Fault, s *score) error {
	test := l.Tests[f.Test]
	if test.Needs != "" && w.run(test.Needs, 60) != nil {
		fmt.Printf("left out   %s: this host lacks what test %s needs: %s\n", f, f.Test, test.Needs)
		s.left++
		return w.ctx.Err()
	}
	if err := w.ready(l, f.Test); err != nil {
		return err
	}
	begin := time.Now()
	word, err := w.judge(f, test)
	switch word {
	case wrong:
		fmt.Printf("NO FAULT   %v\n", err)
		s.wrong++
		return w.ctx.Err()
	case survives:
		s.survivors = append(s.survivors, f)
	case late:
		s.late++
		s.noticed++
	case noticed:
		s.noticed++
	}
	fmt.Printf("%s   %s (%s, %.0f s)\n", word, f, f.Test, time.Since(begin).Seconds())
	return nil
}

func (s score) print(title string) error {
	fmt.Printf("%s: %d of %d faults are noticed, %d of them only by the time limit of a test, %d left out\n",
		title, s.noticed, s.noticed+len(s.survivors), s.late, s.left)
	for _, f := range s.survivors {
		fmt.Printf("  %s\n    - %s\n    + %s\n", f, f.Text, f.With)
	}
	if s.wrong > 0 {
		return fmt.Errorf("%s: %d entries are not faults: the text is not in the file, or the file does not compile with it", title, s.wrong)
	}
	return nil
}

// ready checks that a test passes without a fault. First it runs the list's command `prepare`, and builds the test.
// It does each of these only once.
func (w workTree) ready(l List, name string) error {
	if !w.prepared[l.Title] {
		if err := w.run(l.Prepare, 1800); err != nil {
			return fmt.Errorf("%s: prepare: %w", l.Title, err)
		}
		w.prepared[l.Title] = true
	}
	if w.prepared[l.Title+name] {
		return nil
	}
	test := l.Tests[name]
	if err := w.run(test.Build, 600); err != nil {
		return fmt.Errorf("test %s does not build without a fault: %w", name, err)
	}
	if err := w.run(test.Run, test.Seconds); err != nil {
		return fmt.Errorf("test %s fails without a fault: %w", name, err)
	}
	w.prepared[l.Title+name] = true
	return nil
}

// A verdict says what the test of a fault found.
type verdict string

const (
	noticed  verdict = "noticed "
	late     verdict = "TOO LATE" // the test exceeded its time limit
	survives verdict = "SURVIVES"
	wrong    verdict = "NO FAULT" // the text is not in the file, or the file does not compile
)

// judge runs the test of a fault. If the verdict is `wrong`, the error is the reason.
func (w workTree) judge(f Fault, test Test) (verdict, error) {
	right, err := f.put(filepath.Join(w.dir, "tree"))
	if err != nil {
		return wrong, err
	}
	defer os.WriteFile(filepath.Join(w.dir, "tree", f.File), right, 0o644)
	if err := w.run(test.Build, 600); err != nil {
		return wrong, fmt.Errorf("%s: %w", f, err)
	}
	err = w.run(test.Run, test.Seconds)
	switch {
	case w.ctx.Err() != nil:
		return wrong, w.ctx.Err()
	case err == nil:
		return survives, nil
	case notCompiled.MatchString(err.Error()):
		return wrong, fmt.Errorf("%s: the fault does not compile: %w", f, err)
	case errors.Is(err, errLate):
		return late, nil
	}
	return noticed, nil
}

// notCompiled matches the error of a compiler or of Python for invalid code.
var notCompiled = regexp.MustCompile(`(?m)^\s*\S+\.(c|cuh|h|cpp):\d+:\d+: error:|^SyntaxError:|\[build failed\]`)

func (w workTree) run(command string, seconds int) error {
	if command == "" {
		return nil
	}
	ctx, stop := context.WithTimeout(w.ctx, time.Duration(seconds)*time.Second)
	defer stop()
	log, err := os.Create(filepath.Join(w.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	err = sh(ctx, filepath.Join(w.dir, "tree"), log, "export TMPDIR="+filepath.Join(w.dir, "tmp")+"\n"+command)
	if err == nil {
		return nil
	}
	text, _ := os.ReadFile(log.Name())
	return fmt.Errorf("%w\n%s", err, text[max(0, len(text)-4000):])
}

var errLate = errors.New("took too long")

// sh runs a shell command in a new session. When ctx ends, sh kills the whole session. To kill the process group would
// not be enough, because the program `timeout` starts a group of its own.
func sh(ctx context.Context, dir string, out *os.File, command string, args ...string) error {
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-c", command}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return exec.Command("pkill", "-KILL", "-s", fmt.Sprint(cmd.Process.Pid)).Run() }
	err := cmd.Run()
	if ctx.Err() != nil {
		return errors.Join(errLate, err)
	}
	return err
}
