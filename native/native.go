// Package native embeds the CUDA sources so that the worker can compile them
// for the GPU at hand.
package native

import "embed"

// Sources holds include/ and kernels/. Device sources include each other by
// their path under either folder.
//
//go:embed include/*.h kernels/*/*.cuh
var Sources embed.FS
