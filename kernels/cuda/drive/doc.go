// Package drive runs the kernels that package declare lists, on the GPUs of this host.
//
// The build tag cuda marks files that link the CUDA driver. Only epbench-cuda contains these files. A program that
// contains them ends at its start if the host has no driver, because they import gorgonia.org/cu.
package drive
