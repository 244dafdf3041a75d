package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/testfile"
)

// docCommand is one "$ epbench ..." line of a document.
type docCommand struct {
	file string
	line string
	gpu  bool // from a block "sh gpu": only parsed
}

var variables = regexp.MustCompile(`^\$ (?:[A-Z_]+=\S+ )+`)

var shBlock = regexp.MustCompile("(?ms)^```sh( gpu)?\n(.*?)^```")

func docCommands(t *testing.T, root string) []docCommand {
	t.Helper()
	var out []docCommand
	for _, f := range pages(t, root) {
		text := testfile.Read(t, f)
		for _, m := range shBlock.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(strings.ReplaceAll(m[2], "\\\n", " ")) {
				line = strings.TrimSpace(line)
				if cmd, ok := strings.CutPrefix(variables.ReplaceAllString(line, "$ "), "$ epbench "); ok {
					out = append(out, docCommand{filepath.Base(f), cmd, m[1] != ""})
				} else if cmd, ok := strings.CutPrefix(line, "$ go run ./cmd/epbench"); ok {
					out = append(out, docCommand{filepath.Base(f), strings.TrimSpace(cmd), m[1] != ""})
				}
			}
		}
	}
	return out
}

// TestDocs runs the documents' commands in order, outside the repository.
func TestDocs(t *testing.T) {
	if testing.Short() {
		t.Skip("runs real sweeps; left out with -short")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	commands := docCommands(t, root)
	if len(commands) < 5 {
		t.Fatalf("only %d commands found in the documents", len(commands))
	}
	inLinkedFolder(t, root)
	onTerminal(t, 80)
	useSteadyBackend(t, func() {}) // with real times on a busy host, a sweep may write no table
	useSteadyPython(t)
	for _, c := range commands {
		t.Run(c.file+"/"+c.line, func(t *testing.T) {
			args := shellWords(c.line)
			if c.gpu {
				parseOnly(t, args)
				return
			}
			var stdout, stderr bytes.Buffer
			code := run(context.Background(), args, &stdout, &stderr)
			if code != exitDone {
				t.Errorf("exit %d\n%s%s", code, stdout.String(), stderr.String())
			}
			checkWidth(t, args, 80, stdout.String()+stderr.String())
		})
	}
	checkDemoSweep(t, "first")
	galleryDrawn(t, root)
}

// galleryDrawn compares docs/gallery with pictures that commands of docs/gallery.md drew.
func galleryDrawn(t *testing.T, root string) {
	shown, _ := filepath.Glob(filepath.Join(root, "docs", "gallery", "*.svg"))
	for _, picture := range shown {
		kind := strings.TrimSuffix(filepath.Base(picture), ".svg")
		drawn, _ := filepath.Glob(filepath.Join("gallery", kind+"*.svg"))
		want := testfile.Read(t, picture)
		if !slices.ContainsFunc(drawn, func(path string) bool {
			got, err := os.ReadFile(path)
			return err == nil && bytes.Equal(got, want)
		}) {
			t.Errorf("%s is equal to none of %v: look at the new picture and copy it", picture, drawn)
		}
	}
}

var makeLine = regexp.MustCompile(`(?m)^\$ (?:[A-Z_]+=\S+ )*make ([^&\n]*)`)

// TestDocsNameMakeTargets: the target of each "$ make TARGET" exists.
func TestDocsNameMakeTargets(t *testing.T) {
	var rules []byte
	for _, file := range []string{"Makefile", "release.mk", "native/cuda.mk", "native/epcomm/epcomm.mk"} {
		text := testfile.Read(t, filepath.Join("../..", file))
		rules = append(rules, text...)
	}
	for _, page := range pages(t, "../..") {
		text := testfile.Read(t, page)
		for _, m := range makeLine.FindAllStringSubmatch(string(text), -1) {
			for _, target := range strings.Fields(m[1]) {
				isTarget := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(target) + `:`).Match(rules)
				if !isTarget && !strings.Contains(target, "=") {
					t.Errorf("%s: make %s: no such target", filepath.Base(page), target)
				}
			}
		}
	}
	readme := testfile.Read(t, "../../README.md")
	ci := testfile.Read(t, "../../.ci/run")
	if !bytes.Contains(readme, []byte("$ make test\n")) || !bytes.Contains(ci, []byte("\nmake test-all\n")) {
		t.Error("README must name make test, and .ci/run must run make test-all")
	}
}

var linkTarget = regexp.MustCompile(`\]\([^)]*\)`)

// TestDocsCommand: epbench docs prints all words of each page. If a source names a page, the page exists.
func TestDocsCommand(t *testing.T) {
	onTerminal(t, 60)
	for _, name := range pageNames() {
		var out, failed bytes.Buffer
		if code := run(t.Context(), []string{"docs", name}, &out, &failed); code != exitDone {
			t.Fatalf("%s: exit code %d: %s", name, code, failed.String())
		}
		if strings.Contains(out.String(), "<!--") {
			t.Errorf("%s: a note to maintainers is printed", name)
		}
		page := testfile.Read(t, filepath.Join("../../docs", name+".md"))
		page = pageNote.ReplaceAll(page, nil)
		prose := regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(string(page), "")
		for line := range strings.Lines(pageText(prose, 60)) {
			if n := len([]rune(strings.TrimSpace(line))); n > 60 || !strings.Contains(out.String(), strings.TrimSpace(line)) {
				t.Errorf("%s: %d columns, or not printed: %s", name, n, line)
			}
		}
		for _, word := range regexp.MustCompile(`[A-Za-z]{4,}`).FindAllString(linkTarget.ReplaceAllString(prose, ""), -1) {
			if !strings.Contains(out.String(), word) && !strings.Contains(strings.ReplaceAll(out.String(), "\n", ""), word) {
				t.Errorf("%s: the word %s is not printed", name, word)
			}
		}
	}
	named, err := exec.Command("git", "-C", "../..", "grep", "-ohE", "epbench docs [a-z-]+", "--", "*.go", ":!cmd/epbench/docs*.go").Output()
	if err != nil {
		t.Skip("the sources are not a git checkout")
	}
	for line := range strings.Lines(string(named)) {
		if name := strings.Fields(line)[2]; !slices.Contains(pageNames(), name) {
			t.Errorf("a text names epbench docs %s: there is no such page", name)
		}
	}
}

func parseOnly(t *testing.T, args []string) {
	t.Helper()
	root := newRoot(&bytes.Buffer{}, &bytes.Buffer{})
	cmd, rest, err := root.Find(args)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Fatal(err)
	}
}

func shellWords(line string) []string {
	var out []string
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			if n := len(out); n > 0 && strings.HasSuffix(out[n-1], "=") {
				out[n-1] += part
			} else {
				out = append(out, part)
			}
			continue
		}
		out = append(out, strings.Fields(part)...)
	}
	return out
}
