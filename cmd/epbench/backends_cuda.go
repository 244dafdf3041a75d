package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/worker"
)

const (
	workerName = "epbench-cuda"
	workerEnv  = "EPBENCH_CUDA"
)

// openCUDA starts the GPU worker. `arg` has options such as loopback, separated by colons.
func openCUDA(ctx context.Context, arg string) (kernels.Backend, error) {
	path, err := findWorker()
	if err != nil {
		return nil, err
	}
	argv := []string{path}
	for option := range strings.FieldsSeq(strings.ReplaceAll(arg, ":", " ")) {
		argv = append(argv, "--"+option)
	}
	b, err := worker.Open(ctx, worker.Command{Argv: argv, Said: showSaid}, worker.DefaultLimits(), worker.Built(declare.ABI(), declare.Kernels()))
	if err != nil {
		return nil, err
	}
	return b, nil
}

// findProgram returns the path of a program. Its error names the make target that builds the program.
func findProgram(name, env, target string) (string, error) {
	if path := os.Getenv(env); path != "" {
		if !isExecutable(path) {
			return "", fmt.Errorf("%s: %s cannot be executed; make %s builds bin/%s", env, path, target, name)
		}
		return path, nil
	}
	if self, err := os.Executable(); err == nil {
		if path := filepath.Join(filepath.Dir(self), name); isExecutable(path) {
			return path, nil
		}
	}
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("no %s in this program's folder, on PATH or in %s; make %s builds it", name, env, target)
}

func findWorker() (string, error) { return findProgram(workerName, workerEnv, "cuda") }

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// missingCUDA returns why no GPU can be used here, or "". It does not call the driver.
func missingCUDA() string {
	devices, _ := filepath.Glob("/dev/nvidia[0-9]*")
	_, err := findWorker()
	switch {
	case len(devices) == 0 && os.Getenv(workerEnv) == "":
		return "no /dev/nvidia0: no GPU, or no driver loaded"
	case err != nil:
		return fmt.Sprintf("%d GPUs here, but %v", len(devices), err)
	}
	return ""
}
