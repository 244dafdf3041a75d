// Package native embeds the CUDA sources, so that the worker can compile them for its GPU.
package native

import "embed"

// Sources holds include/ and kernels/. An #include names a device source by its path below one of
// these folders.
//
//go:embed include/*.h kernels/*/*.cuh
var Sources embed.FS
