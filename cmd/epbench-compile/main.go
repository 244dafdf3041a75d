//go:build cuda || nvrtc

// Command epbench-compile compiles device sources for epbench pack. It loads libnvrtc, and epbench does not. It reads
// a pack.Job from stdin and writes a pack.Compiled to stdout, both as JSON.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/epbench/epbench/kernels/cuda/compile"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/cuda/pack"
)

func main() {
	var job pack.Job
	if err := json.NewDecoder(os.Stdin).Decode(&job); err != nil {
		fmt.Fprintln(os.Stderr, "epbench-compile: read the request from epbench pack on stdin:", err)
		os.Exit(1)
	}
	out, err := answer(job)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "epbench-compile:", err)
		os.Exit(1)
	}
}

func answer(job pack.Job) (pack.Compiled, error) {
	if have := declare.ABI(); job.ABI != have {
		return pack.Compiled{}, fmt.Errorf("the kernel sources of this program have hash %s, but those of epbench have %s; build both programs again", have.Short(), job.ABI.Short())
	}
	if have := declare.HostABI(); job.Hosts != have {
		return pack.Compiled{}, fmt.Errorf("the sources of the kernels that cross hosts have hash %s in this program, but %s in epbench; build both programs again", have.Short(), job.Hosts.Short())
	}
	c, err := compile.NewCompiler(job.Arch)
	if err != nil {
		return pack.Compiled{}, err
	}
	return pack.CompileOn(c, job.Units)
}
