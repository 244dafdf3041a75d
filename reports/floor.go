package reports

import (
	"math"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// linkGBps is what one NVLink carries one way, by the architecture that has
// it: NVLink 3 and 4 on Ampere and Hopper, NVLink 5 on Blackwell (vendor data
// sheets).
var linkGBps = map[string]float64{"sm_80": 25, "sm_90": 25, "sm_100": 50, "sm_103": 50}

// Wire is the nominal GB/s that leave one rank of a machine, 0 when its link
// is not known: NVLinks times the rate of each, from a fingerprint that names
// their number, as nv18 does.
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

// FloorSeconds is the least time in which the case's bytes can leave its
// busiest rank at gbps (1e9 bytes a second), each token once per rank it goes
// to; NaN when the bytes or the wire are not known.
func (c *Case) FloorSeconds(gbps float64) float64 {
	if c.Load == nil || c.Load.BytesWire <= 0 || !(gbps > 0) {
		return math.NaN()
	}
	return float64(c.Load.BytesWire) / (gbps * 1e9)
}

// FloorTable prints how near each choice comes to its floor.
func FloorTable(l *Loaded, gbps float64) Table {
	p := ColumnsFor(l.Cases)
	t := Table{Name: "floor", Title: "Wire floor: how near the choice comes", Columns: p.Columns}
	t.Columns = append(t.Columns, Numbers("floor", "us"), Numbers("median", "us"), Numbers("of floor", "%"), Numbers("GB/s", ""))
	for _, c := range l.Cases {
		floor := c.FloorSeconds(gbps)
		winner := c.Winner()
		if winner == nil || math.IsNaN(floor) {
			continue
		}
		mid := winner.Median.Mid
		t.Add(append(p.Cells(c), Micros(floor), Micros(mid), Percent(floor/mid), Float(float64(c.Load.BytesWire)/mid/1e9, 1))...)
	}
	t.Note(p.Shared, "Bytes that leave the busiest rank, each token once per rank it goes to, at "+strconv.FormatFloat(gbps, 'g', 4, 64)+" GB/s.")
	return t
}
