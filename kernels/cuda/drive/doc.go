// Package drive runs the kernels that package declare lists, on the GPUs of this host. It prepares
// candidates, verifies their outputs and times them.
//
// Files with the build tag cuda link the CUDA driver. Only the worker program epbench-cuda has
// them, because gorgonia.org/cu ends a program on a host without a driver.
package drive
