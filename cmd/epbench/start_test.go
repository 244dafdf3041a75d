package main

import (
	"encoding/json"
	"os"

	"github.com/spf13/cobra"
)

// foundEnv names a JSON file. A program that a test starts reads its surroundings from this file.
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
