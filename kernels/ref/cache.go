package ref

import "sync"

// cacheBytes bounds the rows that an oracle keeps: enough for 8 ranks of 4,096
// tokens of 7 KiB, which a sweep compares again and again.
const cacheBytes = 256 << 20

// rowCache keeps quantized tokens. Once it is full it takes no more.
type rowCache struct {
	mu   sync.RWMutex
	rows []map[int]Row // [source][token]
	left int
}

func newRowCache(sources int) *rowCache {
	c := &rowCache{rows: make([]map[int]Row, sources), left: cacheBytes}
	for i := range c.rows {
		c.rows[i] = map[int]Row{}
	}
	return c
}

// get computes a row that is not kept. Two goroutines may compute the same
// one, which costs less than waiting for each other.
func (c *rowCache) get(source, token int, compute func() Row) Row {
	c.mu.RLock()
	row, ok := c.rows[source][token]
	c.mu.RUnlock()
	if ok {
		return row
	}
	row = compute()
	n := len(row.Payload) + len(row.Scales)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.rows[source][token]; !ok && n <= c.left {
		c.rows[source][token] = row
		c.left -= n
	}
	return row
}
