package pack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"

	"github.com/epbench/epbench/kernels/cuda"
	"github.com/epbench/epbench/tune/ep"
)

// Job asks the program epbench-compile for device binaries.
type Job struct {
	ABI   ep.ABI      `json:"abi"` // of the asking program's sources; the other's must be the same
	Arch  string      `json:"arch"`
	Units []cuda.Unit `json:"units"`
}

// Compiled answers a Job, in its order.
type Compiled struct {
	Cubins [][]byte `json:"cubins"`
}

// CompileWith runs a program that answers Jobs.
func CompileWith(program, arch string, units []cuda.Unit) ([][]byte, error) {
	ask, err := json.Marshal(Job{cuda.ABI(), arch, units})
	if err != nil {
		return nil, err
	}
	var said bytes.Buffer
	cmd := exec.Command(program)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(ask), &said
	reply, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(said.String()))
	}
	var out Compiled
	if err := json.Unmarshal(reply, &out); err != nil {
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	if len(out.Cubins) != len(units) {
		return nil, fmt.Errorf("%s: %d binaries for %d units", program, len(out.Cubins), len(units))
	}
	return out.Cubins, nil
}
