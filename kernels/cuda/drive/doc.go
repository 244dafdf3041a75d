// Package drive runs the kernels that package declare lists, on the GPUs of this host.
// The files with the cuda tag link the driver and belong to the worker process alone:
// gorgonia.org/cu ends a program when there is no driver.
package drive
