package pack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/tune/ep"
)

// Job asks the program epbench-compile for device binaries.
type Job struct {
	ABI   ep.ABI         `json:"abi"`   // of the asking program's sources, which the other program must have too
	Hosts ep.ABI         `json:"hosts"` // the same for the kernels that cross hosts
	Arch  string         `json:"arch"`
	Units []declare.Unit `json:"units"`
}

// Compiled answers a Job, in its order.
type Compiled struct {
	Cubins  [][]byte `json:"cubins"`
	Network string   `json:"network,omitempty"` // version of the NVSHMEM that units which cross hosts are linked to
}

// CompileWith runs a program that answers Jobs.
func CompileWith(program, arch string, units []declare.Unit) (out Compiled, err error) {
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

// compiler is a *compile.Compiler, which this package cannot import: it needs libnvrtc.
type compiler interface {
	CompileAll(units ...declare.Unit) ([][]byte, error)
	NetworkVersion() (string, error)
}

// CompileOn answers with a compiler of this process.
func CompileOn(c compiler, units []declare.Unit) (out Compiled, err error) {
	if slices.ContainsFunc(units, declare.Unit.CrossesHosts) {
		if out.Network, err = c.NetworkVersion(); err != nil {
			return out, err
		}
	}
	out.Cubins, err = c.CompileAll(units...)
	return out, err
}
