package reports

import (
	"math"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// linkGBps holds the speed of one NVLink in one direction, in GB/s, by architecture (vendor data sheets).
var linkGBps = map[string]float64{"sm_80": 25, "sm_90": 25, "sm_100": 50, "sm_103": 50}

// Wire returns the nominal speed of a rank's link in each direction, in GB/s; 0 if unknown. Link nv18 has 18 NVLinks.
func Wire(m ep.Machine) float64 {
	rate := linkGBps[strings.TrimSuffix(m.Arch, "a")]
	for _, word := range strings.FieldsFunc(strings.ToLower(m.Link), func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9') }) {
		digits, ok := strings.CutPrefix(word, "nv")
		if n, err := strconv.Atoi(digits); ok && err == nil {
			return rate * float64(n)
		}
	}
	return 0
}

// WireLimit returns the seconds in which a link of `gbps` GB/s moves the busiest rank's bytes. It is NaN if the bytes
// or the speed are unknown or zero.
func (c *Case) WireLimit(gbps float64) float64 {
	if c.Load == nil {
		return math.NaN()
	}
	return limit(c.Load.BytesWire, gbps)
}

func limit(bytes int64, gbps float64) float64 {
	if bytes <= 0 || !(gbps > 0) {
		return math.NaN()
	}
	return float64(bytes) / (gbps * 1e9)
}

// WireTable lists how close each winner comes to the wire limit.
func WireTable(l *Loaded, gbps float64) Table {
	p := ColumnsFor(l.Cases)
	t := Table{Name: "wire", Title: "Wire limit: how close each winner comes", Columns: p.Columns}
	t.Columns = append(t.Columns, Numbers("wire limit", "us"), Numbers("median", "us"), Numbers("of the wire limit", "%"), Numbers("speed", "GB/s"))
	for _, c := range l.Cases {
		limit := c.WireLimit(gbps)
		winner := c.Winner()
		if winner == nil || math.IsNaN(limit) {
			continue
		}
		mid := winner.Median.Mid
		t.Add(append(p.Cells(c), Micros(limit), Micros(mid), Percent(limit/mid), Float(float64(c.Load.BytesWire)/mid/1e9, 1))...)
	}
	t.Note(p.Shared, "wire limit: the time to send the busiest rank's bytes, each token once to each rank that needs it, at "+strconv.FormatFloat(gbps, 'g', 4, 64)+" GB/s.")
	return t
}
