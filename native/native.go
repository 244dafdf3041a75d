// Package native embeds the CUDA sources, so that the worker can compile them for its GPU.
package native

import "embed"

// Sources holds the folders include and kernels, which are the include path of device code.
//
//go:embed include/*.h kernels/*/*.cuh
var Sources embed.FS
