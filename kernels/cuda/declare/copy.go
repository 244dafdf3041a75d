package declare

import "fmt"

// CopyProbe is a plain copy of rows on every rank. It measures the highest bandwidth that SMs reach. A row
// has RowBytes bytes. Each rank copies Home rows within its own GPU, and Away rows to the next rank.
type CopyProbe struct {
	SMs, Home, Away, RowBytes int
}

func (p CopyProbe) Check(sms int) error {
	switch {
	case p.SMs < 1 || p.SMs > sms:
		return fmt.Errorf("sms: %d, use 1 to %d", p.SMs, sms)
	case p.RowBytes < 16 || p.RowBytes > 1<<20 || p.RowBytes%16 != 0:
		return fmt.Errorf("row-bytes: %d, use a multiple of 16 up to %d", p.RowBytes, 1<<20)
	case p.Home < 0 || p.Away < 0 || p.Home+p.Away < 1 || p.Home+p.Away > 1<<30:
		return fmt.Errorf("home, away: %d and %d rows, use 1 to %d in all", p.Home, p.Away, 1<<30)
	}
	return nil
}

// copyHalf limits the bytes of the source area, and those of the target area. It exceeds every L2 cache.
const copyHalf = 256 << 20

func (p CopyProbe) rows() int { return min(p.Home+p.Away, copyHalf/p.RowBytes) }

func (p CopyProbe) Launch() Launch {
	return litmusLaunch("beside_copy", p.SMs, 512, p.Home, p.Away, p.RowBytes, p.rows())
}

// State returns the memory of the copy: source rows, then target rows.
func (p CopyProbe) State() State {
	return areaState("copy", 2*int64(p.rows())*int64(p.RowBytes), 1)
}
