// Package nvrtc compiles CUDA sources at run time. It loads libnvrtc, of CUDA 12 or
// 13, only when something is compiled, so that a program starts without it.
//
// gorgonia.org/cu/nvrtc was not used: it links one fixed libnvrtc and returns PTX only. The
// driver compiles PTX when it loads it, so that registers and spills would stay unknown on a
// host without a GPU.
package nvrtc
