// Package compile turns units into device binaries by NVRTC, and remembers them on disk.
// It needs no GPU.
package compile
