// Package drive runs the kernels that package declare lists, on the GPUs of this host.
//
// The build tag cuda marks files that link the CUDA driver. Only epbench-cuda has them, because gorgonia.org/cu ends
// its program if the host has no driver.
package drive
