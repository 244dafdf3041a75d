package ref

import "sync"

// Cache sizes in bytes.
const (
	cachedTokens = 256 << 20
	cachedSums   = 320 << 20
)

// cache keeps values until it is full. Two indices, `list` and `place`, select a value.
type cache[V any] struct {
	mu   sync.RWMutex
	kept []map[int]V // [list][place]
	left int         // free bytes
	size func(V) int
}

func newCache[V any](lists, bytes int, size func(V) int) *cache[V] {
	c := &cache[V]{kept: make([]map[int]V, lists), left: bytes, size: size}
	for i := range c.kept {
		c.kept[i] = map[int]V{}
	}
	return c
}

// get returns a value, and computes a missing one.
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
