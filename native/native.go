// Package native embeds the CUDA sources, so that the worker can compile them
// for the GPU that it runs on.
package native

import "embed"

// Sources holds include/ and kernels/. In an #include, device sources name each other by
// their path below one of these folders.
//
//go:embed include/*.h kernels/*/*.cuh
var Sources embed.FS
