//go:build !amd64 || race

package vec

// Race builds use these functions, because the race detector sees only Go code.

func sumVector([]uint16, [][]uint16, []float32) int { return 0 }

func streamVector(_, _ []byte) int { return 0 }
