package ref

import "sync"

// The sizes of an oracle's caches, in bytes. A sweep compares the same outputs again and again. The caches
// have room for the quantized tokens of 8 ranks with 4,096 tokens of 7 KiB, and for the bounds of 16
// million elements on each of 2 ranks.
const (
	cachedTokens = 256 << 20
	cachedSums   = 320 << 20
)

// cache keeps values by list and by index in the list. When it is full, it stores no further values.
type cache[V any] struct {
	mu   sync.RWMutex
	kept []map[int]V // [list][place]
	left int         // bytes that are still free
	size func(V) int // returns the bytes of a value
}

func newCache[V any](lists, bytes int, size func(V) int) *cache[V] {
	c := &cache[V]{kept: make([]map[int]V, lists), left: bytes, size: size}
	for i := range c.kept {
		c.kept[i] = map[int]V{}
	}
	return c
}

// get returns a value. It computes the value if it is not cached. Two goroutines may compute the same
// value at the same time, because that costs less than waiting for each other.
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
