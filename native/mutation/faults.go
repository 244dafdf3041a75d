// Command mutation puts faults into C, Go, Python and device code, one at a time, and runs the test that
// should notice each fault. The YAML files of this folder list the faults. CONTRIBUTING.md says how to add
// one.
//
//	go run ./native/mutation [-only WORD] [-keep DIR] LIST...
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"
)

// A List holds faults of one language, and the tests that should notice them.
type List struct {
	Title   string          `yaml:"title"`
	Prepare string          `yaml:"prepare"` // shell command that is run once, before any fault is in the tree
	Tests   map[string]Test `yaml:"tests"`
	Faults  []Fault         `yaml:"faults"`
}

// A Test is a shell command that fails if it notices a fault.
type Test struct {
	Build   string `yaml:"build"`   // if this command fails, the fault does not count
	Run     string `yaml:"run"`     // run at the top of the tree
	Seconds int    `yaml:"seconds"` // a run that takes longer counts as failed
	Needs   string `yaml:"needs"`   // shell command that fails on hosts where the test cannot run
}

// A Fault replaces a text that occurs once in a file.
type Fault struct {
	File   string `yaml:"file"`
	Text   string `yaml:"text"`
	With   string `yaml:"with"`
	Breaks string `yaml:"breaks"` // what would go wrong for a user
	Test   string `yaml:"test"`   // name of the test that should notice
}

// readList reads a list and checks that each fault is complete.
func readList(path string) (List, error) {
	var l List
	text, err := os.ReadFile(path)
	if err != nil {
		return l, err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&l); err != nil {
		return l, fmt.Errorf("%s: %w", path, err)
	}
	for i, f := range l.Faults {
		if slices.Contains([]string{f.File, f.Text, f.Breaks, f.Test}, "") {
			return l, fmt.Errorf("%s: fault %d: give file, text, breaks and test", path, i+1)
		}
		if _, ok := l.Tests[f.Test]; !ok {
			return l, fmt.Errorf("%s: %s: there is no test %q in the list", path, f, f.Test)
		}
	}
	return l, nil
}

func (f Fault) String() string { return f.File + ": " + f.Breaks }

// put writes the file with the fault to the tree, and returns the file's right content.
func (f Fault) put(tree string) (right []byte, err error) {
	path := filepath.Join(tree, f.File)
	right, err = os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(right, []byte(f.Text)); n != 1 {
		return nil, fmt.Errorf("%s: the text occurs %d times in the file, want 1: %q", f, n, f.Text)
	}
	return right, os.WriteFile(path, bytes.Replace(right, []byte(f.Text), []byte(f.With), 1), 0o644)
}
