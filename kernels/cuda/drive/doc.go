// Package drive runs the kernels that package declare lists, on the GPUs of this host.
//
// The build tag cuda marks files that link the CUDA driver. gorgonia.org/cu ends a program without a driver, so
// only epbench-cuda has them.
package drive
