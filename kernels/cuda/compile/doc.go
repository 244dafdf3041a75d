// Package compile turns units (sources.Unit: a device source and its macros) into device binaries with NVRTC, and
// keeps the binaries on disk.
package compile
