// Package native embeds the CUDA sources so that the worker can compile them
// for the GPU at hand.
package native

import "embed"

// Sources holds include/ and kernels/.
//
//go:embed include/*.h
var Sources embed.FS
