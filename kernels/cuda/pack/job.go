package pack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
)

// Job is a request to the program epbench-compile.
type Job struct {
	ABI   ep.ABI         `json:"abi"`   // epbench-compile must have the same build
	Hosts ep.ABI         `json:"hosts"` // build of kernels that cross hosts
	Arch  string         `json:"arch"`
	Units []sources.Unit `json:"units"`
}

// Compiled is the answer to a Job.
type Compiled struct {
	Cubins  [][]byte `json:"cubins"`
	Network string   `json:"network,omitempty"` // NVSHMEM's version, if a unit crosses hosts
}

// CompileWith asks a program such as epbench-compile to answer a Job.
func CompileWith(program, arch string, units []sources.Unit) (out Compiled, err error) {
	ask, err := json.Marshal(Job{declare.ABI(), declare.HostABI(), arch, units})
	if err != nil {
		return out, err
	}
	var said bytes.Buffer
	cmd := exec.Command(program)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(ask), &said
	reply, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(said.String()))
	}
	if err := json.Unmarshal(reply, &out); err != nil {
		return out, fmt.Errorf("%s: %w", program, err)
	}
	if len(out.Cubins) != len(units) {
		return out, fmt.Errorf("%s: %d binaries for %d units", program, len(out.Cubins), len(units))
	}
	return out, nil
}

// compiler is implemented by *compile.Compiler. This package does not import package compile, which needs libnvrtc.
type compiler interface {
	CompileAll(units ...sources.Unit) ([][]byte, error)
	NetworkVersion() (string, error)
}

// CompileOn compiles units in this process.
func CompileOn(c compiler, units []sources.Unit) (out Compiled, err error) {
	if slices.ContainsFunc(units, sources.Unit.CrossesHosts) {
		if out.Network, err = c.NetworkVersion(); err != nil {
			return out, err
		}
	}
	out.Cubins, err = c.CompileAll(units...)
	return out, err
}
