package ref

// cacheBytes bounds the rows an oracle keeps: enough for the small problems
// that a sweep verifies again and again.
const cacheBytes = 64 << 20

// rowCache keeps quantized tokens until it is full, then nothing more.
type rowCache struct {
	rows []map[int]Row // [source][token]
	left int
}

func newRowCache(sources int) rowCache {
	c := rowCache{rows: make([]map[int]Row, sources), left: cacheBytes}
	for i := range c.rows {
		c.rows[i] = map[int]Row{}
	}
	return c
}

func (c *rowCache) get(source, token int, compute func() Row) Row {
	if row, ok := c.rows[source][token]; ok {
		return row
	}
	row := compute()
	if n := len(row.Payload) + len(row.Scales); n <= c.left {
		c.rows[source][token] = row
		c.left -= n
	}
	return row
}
