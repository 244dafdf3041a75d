// Command mutation puts faults into C, Go, Python and device code, one at a time. For each fault it runs the test
// that should fail. Each LIST is a YAML file that describes faults and their tests.
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
	Prepare string          `yaml:"prepare"`
	Tests   map[string]Test `yaml:"tests"`
	Faults  []Fault         `yaml:"faults"`
}

// A Test is a shell command that fails if it notices a fault.
type Test struct {
	Build   string `yaml:"build"`
	Run     string `yaml:"run"`
	Seconds int    `yaml:"seconds"` // time limit; a test that exceeds it counts as failed
	Needs   string `yaml:"needs"`   // command that fails on hosts that cannot run the test
}

// A Fault replaces a text that occurs once in a file.
type Fault struct {
	File   string `yaml:"file"`
	Text   string `yaml:"text"`
	With   string `yaml:"with"`
	Breaks string `yaml:"breaks"` // what goes wrong for a user with the fault
	Test   string `yaml:"test"`
}

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

// put writes the fault to its file in the folder `tree`, and returns the file's earlier content.
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
