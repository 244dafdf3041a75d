package main

import (
	"encoding/json"
	"os"

	"github.com/spf13/cobra"
)

// foundEnv names a file with the surroundings that start finds in a program that a test starts.
const foundEnv = "EPBENCH_TEST_FOUND"

// foundHere lets start find what the file of foundEnv holds.
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
