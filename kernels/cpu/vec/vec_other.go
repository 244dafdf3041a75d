//go:build !amd64 || race

package vec

// The race detector sees Go code only, so that race builds take this path
// too.

func sumVector([]uint16, [][]uint16, []float32) int { return 0 }

func streamVector(_, _ []byte) int { return 0 }
