// Package nvrtc compiles CUDA sources at run time. It loads libnvrtc of CUDA 12 or 13 on first use, so that
// programs start without it.
//
// gorgonia.org/cu/nvrtc links one fixed libnvrtc, and returns PTX instead of binaries.
package nvrtc
