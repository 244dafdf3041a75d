package ref

import "sync"

// What an oracle keeps, since a sweep compares the same outputs again and again: the
// quantized tokens of 8 ranks of 4,096 tokens of 7 KiB, and the bounds of the sums of 2 ranks
// of which 16 million elements are compared.
const (
	cachedTokens = 256 << 20 // bytes
	cachedSums   = 320 << 20
)

// cache keeps values by list and place, up to so many bytes. Once it is full it takes
// no more.
type cache[V any] struct {
	mu   sync.RWMutex
	kept []map[int]V // [list][place]
	left int
	size func(V) int
}

func newCache[V any](lists, bytes int, size func(V) int) *cache[V] {
	c := &cache[V]{kept: make([]map[int]V, lists), left: bytes, size: size}
	for i := range c.kept {
		c.kept[i] = map[int]V{}
	}
	return c
}

// get computes a value that is not kept. Two goroutines may compute the same one, which
// costs less than waiting for each other.
func (c *cache[V]) get(list, place int, compute func() V) V {
	c.mu.RLock()
	v, ok := c.kept[list][place]
	c.mu.RUnlock()
	if ok {
		return v
	}
	v = compute()
	n := c.size(v)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.kept[list][place]; !ok && n <= c.left {
		c.kept[list][place] = v
		c.left -= n
	}
	return v
}
