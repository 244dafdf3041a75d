package reports

import (
	"fmt"
	"math"

	"github.com/epbench/epbench/tune/ep"
)

// memoryGBps holds memory speeds in GB/s from vendor data sheets, by PCI id.
var memoryGBps = map[string]float64{
	"10de:20b0": 1555, // A100 SXM 40 GB
	"10de:20b2": 2039, // A100 SXM 80 GB
	"10de:20b5": 1935, // A100 PCIe 80 GB
	"10de:2321": 3938, // H100 NVL
	"10de:2330": 3350, // H100 SXM
	"10de:2331": 2039, // H100 PCIe
	"10de:2335": 4800, // H200 SXM
	"10de:233b": 4800, // H200 NVL
	"10de:2901": 8000, // B200
}

// Speeds holds speeds in GB/s (1e9 bytes per second).
type Speeds struct {
	Link   float64 // of a rank's link in each direction
	Memory float64 // of a GPU's memory, reads and writes together
}

// Of returns s. It replaces an unset speed by the machine's nominal speed, if that is known.
func (s Speeds) Of(m ep.Machine) Speeds {
	if s.Link == 0 {
		s.Link = Wire(m)
	}
	if s.Memory == 0 {
		s.Memory = memoryGBps[m.PCIID]
	}
	return s
}

// MemoryLimit returns the seconds that an activation's bytes need at gbps GB/s, NaN if unknown.
func (c *Case) MemoryLimit(gbps float64) float64 {
	if c.Load == nil {
		return math.NaN()
	}
	return limit(c.Load.BytesMemory, gbps)
}

// Limit returns the memory limit of an activation, and the wire limit of other ops, in seconds. The wire limit is the
// time that the busiest rank's bytes take on its link.
func (c *Case) Limit(s Speeds) float64 {
	if c.Problem.Op == ep.Activation {
		return c.MemoryLimit(s.Memory)
	}
	return c.WireLimit(s.Link)
}

// Bytes returns the bytes from which Limit is computed, 0 if unknown.
func (c *Case) Bytes() int64 {
	switch {
	case c.Load == nil:
		return 0
	case c.Problem.Op == ep.Activation:
		return c.Load.BytesMemory
	}
	return c.Load.BytesWire
}

// LimitName returns the name of an op's limit, and the speed from which it is computed.
func (s Speeds) LimitName(op ep.Op) (name string, gbps float64) {
	if op == ep.Activation {
		return "memory limit", s.Memory
	}
	return "wire limit", s.Link
}

// MemoryTable shows how close each activation's winner comes to the memory limit.
func MemoryTable(l *Loaded, gbps float64) Table {
	p := ColumnsFor(l.Cases)
	t := Table{Name: "memory", Title: "Memory limit: how close each winner comes", Columns: p.Columns}
	t.Columns = append(t.Columns, Numbers("memory limit", "us"), Numbers("median", "us"), Numbers("of the memory limit", "%"), Numbers("speed", "GB/s"))
	for _, c := range l.Cases {
		limit, winner := c.MemoryLimit(gbps), c.Winner()
		if winner == nil || math.IsNaN(limit) {
			continue
		}
		mid := winner.Median.Mid
		t.Add(append(p.Cells(c), Micros(limit), Micros(mid), Percent(limit/mid), Float(float64(c.Load.BytesMemory)/mid/1e9, 1))...)
	}
	t.Note(p.Shared, fmt.Sprintf("memory limit: the time that a memory of %.4g GB/s needs for the bytes that the rank with the most rows reads and writes. Each call uses another copy of the rows, so that the rows come from memory and not from the L2 cache. There are 64 copies, or as many as fit in 256 MiB. In a very small call all 64 copies fit into the L2 cache, and its rows do come from there.", gbps))
	return t
}
