package main

import (
	"encoding/json"
	"os"

	"github.com/spf13/cobra"
)

// If the environment variable foundEnv has the path of a JSON file with surroundings, a program that a
// test starts uses these surroundings in place of the machine's own.
const foundEnv = "EPBENCH_TEST_FOUND"

// foundHere replaces lookAround by a function that returns the surroundings in the file of
// foundEnv.
func foundHere() {
	name := os.Getenv(foundEnv)
	if name == "" {
		return
	}
	lookAround = func(*cobra.Command) (s surroundings) {
		text, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(text, &s)
		}
		if err != nil {
			panic(err)
		}
		return s
	}
}
