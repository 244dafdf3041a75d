package reports_test

import (
	"math"
	"testing"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// TestMemoryLimit: the memory limit is the bytes of memory traffic divided by the memory's
// speed.
func TestMemoryLimit(t *testing.T) {
	c := reports.Case{Problem: ep.Problem{Op: ep.Activation}, Load: &record.Workload{BytesMemory: 4_800_000}}
	s := reports.Speeds{}.Of(ep.Machine{PCIID: "10de:2335", Arch: "sm_90", Link: "nvlink:nv18"})
	if s.Memory != 4800 || s.Link != 450 {
		t.Errorf("an H200 has %+v", s)
	}
	if got := c.Limit(s); math.Abs(got-1e-6) > 1e-15 {
		t.Errorf("4.8 MB at 4,800 GB/s take %g s", got)
	}
	if name, gbps := s.LimitName(ep.Activation); name != "memory limit" || gbps != 4800 || c.Bytes() != 4_800_000 {
		t.Errorf("%s at %g GB/s of %d bytes", name, gbps, c.Bytes())
	}
	if got := (reports.Speeds{Memory: 4300}).Of(ep.Machine{PCIID: "10de:2335"}); got.Memory != 4300 {
		t.Errorf("a given speed became %g", got.Memory)
	}
	c.Problem.Op, c.Load.BytesMemory, c.Load.BytesWire = ep.Dispatch, 0, 450_000
	if got := c.Limit(s); math.Abs(got-1e-6) > 1e-15 || !math.IsNaN(c.MemoryLimit(s.Memory)) {
		t.Errorf("a dispatch has limit %g and memory limit %g", got, c.MemoryLimit(s.Memory))
	}
	if !math.IsNaN((&reports.Case{}).MemoryLimit(1)) {
		t.Error("a case without bytes has a limit")
	}
}
