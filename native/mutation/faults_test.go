package main

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLists: the text of every fault in the lists occurs once in the current sources.
func TestLists(t *testing.T) {
	lists, err := filepath.Glob("*.yaml")
	if err != nil || len(lists) == 0 {
		t.Fatal(lists, err)
	}
	for _, path := range lists {
		l, err := readList(path)
		if err != nil {
			t.Error(err)
		}
		for _, f := range l.Faults {
			text, err := os.ReadFile(filepath.Join("..", "..", f.File))
			if n := strings.Count(string(text), f.Text); err != nil || n != 1 || f.With == f.Text {
				t.Errorf("%s: %s: the text occurs %d times in the file, want 1: %q, %v", path, f, n, f.Text, err)
			}
		}
	}
}

// TestMutate: of two faults the test notices one. After the run the file has its earlier content.
func TestMutate(t *testing.T) {
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	if err := os.MkdirAll(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(tree, "f")
	if err := os.WriteFile(source, []byte("two = 2\nthree = 3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w := workTree{t.Context(), dir, map[string]bool{}}
	check := Test{Run: "grep -qx 'two = 2' f", Seconds: 60}
	for _, c := range []struct {
		f     Fault
		want  verdict
		fails string
	}{
		{Fault{File: "f", Text: "two = 2", With: "two = 3"}, noticed, ""},
		{Fault{File: "f", Text: "three = 3", With: "three = 4"}, survives, ""},
		{Fault{File: "f", Text: "=", With: ":"}, wrong, "occurs 2 times"},
		{Fault{File: "f", Text: "four", With: "five"}, wrong, "occurs 0 times"},
	} {
		got, err := w.judge(c.f, check)
		if got != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%+v: %s, %v", c.f, got, err)
		}
		if text, err := os.ReadFile(source); err != nil || string(text) != "two = 2\nthree = 3\n" {
			t.Errorf("the file is %q after the fault, %v", text, err)
		}
	}
}

// TestCopyFile: an equal copy is not written again.
func TestCopyFile(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "sub", "to")
	if err := os.WriteFile(from, []byte("right"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{"", "faulty"} {
		if left != "" {
			if err := os.WriteFile(to, []byte(left), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := copyFile(from, to); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(to); err != nil || string(text) != "right" {
			t.Errorf("after %q: %q, %v", left, text, err)
		}
	}
	old := time.Now().Add(-time.Hour)
	if err := cmp.Or(os.Chtimes(to, old, old), copyFile(from, to)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(to); err != nil || time.Since(info.ModTime()) < time.Minute || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestRemoveOthers: files that the repository no longer has are removed from the copy.
func TestRemoveOthers(t *testing.T) {
	tree := filepath.Join(t.TempDir(), "tree")
	if err := removeOthers(tree, []string{"a"}); err != nil {
		t.Errorf("no copy yet: %v", err)
	}
	for _, name := range []string{"a", "old", "bin/built"} {
		if err := copyFile("main.go", filepath.Join(tree, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeOthers(tree, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	for name, stays := range map[string]bool{"a": true, "old": false, "bin/built": true} {
		if _, err := os.Stat(filepath.Join(tree, name)); (err == nil) != stays {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestJudge: a fault that does not compile is an error.
func TestJudge(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "tree"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tree", "f"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	w, f := workTree{t.Context(), dir, map[string]bool{}}, Fault{File: "f", Text: "x", With: "y"}
	for _, c := range []struct {
		test Test
		want verdict
	}{
		{Test{Build: "false", Run: "true", Seconds: 60}, wrong},
		{Test{Run: "echo '    a.c:1:2: error: no'; false", Seconds: 60}, wrong},
		{Test{Run: "false", Seconds: 60}, noticed},
		{Test{Run: "timeout 600 sleep 600", Seconds: 1}, late},
	} {
		if got, err := w.judge(f, c.test); got != c.want || (err != nil) != (got == wrong) {
			t.Errorf("%+v: %s, %v", c.test, got, err)
		}
	}
}
