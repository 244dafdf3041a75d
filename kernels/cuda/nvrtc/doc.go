// Package nvrtc compiles CUDA sources at run time. It loads libnvrtc, of CUDA 12 or
// 13, only when something is compiled, so that a program starts without it.
//
// The package gorgonia.org/cu/nvrtc is not used, because it links one fixed libnvrtc and returns only PTX.
// Only the driver compiles PTX to a binary, so on a host without a GPU the numbers of registers and spills
// would stay unknown.
package nvrtc
