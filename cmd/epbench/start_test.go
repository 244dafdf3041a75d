package main

import (
	"encoding/json"
	"os"

	"github.com/spf13/cobra"
)

// If foundEnv has the path of a JSON file, a program that a test starts takes its surroundings from it.
const foundEnv = "EPBENCH_TEST_FOUND"

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
