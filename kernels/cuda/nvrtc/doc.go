// Package nvrtc compiles CUDA sources at run time. It loads libnvrtc of CUDA 12 or 13 on first use.
//
// It does not use gorgonia.org/cu/nvrtc, which links one fixed libnvrtc and returns PTX instead of binaries.
package nvrtc
