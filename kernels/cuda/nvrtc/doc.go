// Package nvrtc compiles CUDA sources at run time. It loads libnvrtc, of CUDA 12 or
// 13, only when something is compiled, so that a program starts without it.
//
// gorgonia.org/cu/nvrtc was not taken. It links one fixed libnvrtc and returns PTX
// only, which the driver compiles when it loads it: registers and spills would not
// be known on a host without a GPU.
package nvrtc
