package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

type plan struct {
	name   string
	module string // Python module that the plan tunes
	least  int    // least number of GPUs
	what   string
	page   string
	steps  func(s surroundings, model string) []step
}

// plans lists what epbench start can propose, in the order in which it tries them.
var plans = []plan{
	{"deepep2", "deep_ep", 2, "DeepEP V2 (ElasticBuffer), which your engine calls", "epbench docs run-deepep", deepep2Steps},
	{"deepep", "deep_ep", 2, "DeepEP, which your engine calls", "epbench docs run-deepep", deepepSteps},
	{"flashinfer", "flashinfer", 2, "FlashInfer's all-to-all", "epbench docs run-flashinfer", flashinferSteps},
	{"own", "", 1, "epbench's own kernels", "epbench docs epcomm", ownSteps},
	{"nccl", "torch", 2, "the all-to-all of PyTorch", "epbench docs run-nccl", ncclSteps},
	{"cpu", "", 0, "a look without a GPU", "README.md of the repository", cpuSteps},
}

func planNames() (out []string) {
	for _, p := range plans {
		out = append(out, p.name)
	}
	return out
}

// planFor returns the plan with this name. Without a name, it returns the first plan that helps on this machine.
func planFor(name string, s surroundings) (plan, error) {
	for _, p := range plans {
		if p.name == name || name == "" && p.missing(s) == "" {
			return p, nil
		}
	}
	return plan{}, usagef("--for: unknown library %q%s", name, ep.DidYouMean(name, planNames(), ", use one of "+strings.Join(planNames(), ", ")))
}

// missing returns why the plan does not help on this machine, or "" if it does.
func (p plan) missing(s surroundings) string {
	switch {
	case s.GPUs < p.least:
		return fmt.Sprintf("it needs %s, this host has %d", ep.Count(p.least, "GPU"), s.GPUs)
	case p.module != "" && s.Modules[p.module] == "":
		return fmt.Sprintf("the Python module %s is not installed", p.module)
	case p.name == "deepep2" && s.Elastic == "":
		return fmt.Sprintf("the Python module deep_ep is of DeepEP V1 (%s)", s.Modules["deep_ep"])
	case p.name == "deepep2" && s.Modules["sglang"] != "" && s.Modules["vllm"] == "":
		return "SGLang 0.5.17 calls the Buffer of DeepEP V1, and not the ElasticBuffer of V2"
	case p.module != "" && s.Worker == "":
		return "the workers for libraries in Python are missing"
	case p.name == "own" && s.Machine.Name == "":
		return "epbench-cuda does not answer"
	}
	return ""
}

func (p plan) title(s surroundings) string {
	if missing := p.missing(s); missing != "" {
		return p.what + "; " + missing
	}
	return p.what
}

// sweepMinutes sets the budget of the proposed sweeps. The budget includes the worker's start.
const sweepMinutes = 5

func library(s surroundings, worker string) string {
	python := s.Python
	if python == "" {
		python = "python3"
	}
	return fmt.Sprintf("launch:%s -m torch.distributed.run --standalone --nproc-per-node %d %s %s", ep.Quote(python), ranks(s), ep.Quote(s.Worker), worker)
}

// ranks returns the number of GPUs, at least 2.
func ranks(s surroundings) int { return max(2, s.GPUs) }

func librarySweep(s surroundings, dir, worker, model, tokens, ops string) step {
	return step{"measure", []string{"sweep", "-o", dir, "--backend", library(s, worker), "--model", model, "--ranks", strconv.Itoa(ranks(s)),
		"--tokens", tokens, "--max-tokens", "4096", "--routing", "uniform,zipf:1.0", "--op", ops, "--strategy", "grid",
		"--budget", fmt.Sprintf("%dm", sweepMinutes)}, sweepMinutes}
}

func reportStep(dir string) step {
	return step{"show the result, and write the HTML page", []string{"report", dir}, 0}
}

func exportStep(dir, format, file string) step {
	return step{"write the file that the engine reads", []string{"table", "export", "--table", dir, "--format", format, "-o", file}, 0}
}

func deepepSteps(s surroundings, model string) []step {
	dir := freeName("deepep-run")
	return []step{librarySweep(s, dir, "deepep", model, "128,1024,4096", "dispatch,combine"), reportStep(dir), deepepExport(s, dir)}
}

func deepepExport(s surroundings, dir string) step {
	if s.Modules["sglang"] != "" {
		return exportStep(dir, "sglang", "deepep.json")
	}
	return exportStep(dir, "deepep-shim", "epbench_deepep.py")
}

// deepep2Steps ends with a look-up and writes no file: DeepEP V2 reads no config file, and takes num_sms as an argument
// of each call.
func deepep2Steps(s surroundings, model string) []step {
	dir := freeName("deepep2-run")
	sweep := librarySweep(s, dir, "deepep2", model, "1,8,128,1024,4096", "dispatch,combine,pair")
	sweep.words = append(sweep.words, "--layout", "rank:packed")
	return []step{sweep, reportStep(dir), {"look up the value of num_sms to pass", []string{"table", "lookup", "--table", dir, "--tokens", "1024"}, 0}}
}

func flashinferSteps(s surroundings, model string) []step {
	dir := freeName("flashinfer-run")
	return []step{librarySweep(s, dir, "flashinfer", model, "1,8,128,1024,4096", "dispatch,combine,pair"), reportStep(dir), exportStep(dir, "flashinfer-env", "flashinfer.sh")}
}

func ncclSteps(s surroundings, model string) []step {
	dir := freeName("nccl-run")
	return []step{librarySweep(s, dir, "nccl", model, "1,8,128,1024,4096", "dispatch,combine,pair"), reportStep(dir),
		{"ask what to launch", []string{"table", "lookup", "--table", dir, "--tokens", "128"}, 0}}
}

func ownSteps(s surroundings, model string) []step {
	dir := freeName("own-run")
	sweep := []string{"sweep", "-o", dir, "--model", model, "--ranks", strconv.Itoa(ranks(s)), "--tokens", "1:4096:x4", "--dtype", "fp8",
		"--routing", "uniform,zipf:1.0", "--budget", fmt.Sprintf("%dm", sweepMinutes)}
	if s.GPUs == 1 {
		sweep = append(sweep, "--backend", "cuda:loopback")
	}
	pack := []string{"pack", "--table", dir, "--model", model, "--ranks", strconv.Itoa(ranks(s)), "--max-tokens", "4096", "--dtype", "fp8", "-o", model + ".pack"}
	return []step{{"measure", sweep, sweepMinutes}, reportStep(dir), {"compile the winners into one file for epcomm", pack, 1}}
}

func cpuSteps(_ surroundings, _ string) []step {
	dir := freeName("first")
	return []step{{"measure, with goroutines in place of GPUs", []string{"sweep", "-o", dir}, 1}, reportStep(dir),
		{"ask what to launch", []string{"table", "lookup", "--table", dir, "--tokens", "16"}, 0}}
}
