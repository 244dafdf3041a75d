package reports_test

import (
	"math"
	"testing"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

func TestMemoryLimit(t *testing.T) {
	c := reports.Case{Problem: ep.Problem{Op: ep.Activation}, Load: &record.Workload{BytesMemory: 4_800_000}}
	s := reports.Speeds{}.Of(ep.Machine{PCIID: "10de:2335", Arch: "sm_90", Link: "nvlink:nv18"})
	if s.Memory != 4800 || s.Link != 450 {
		t.Errorf("the speeds of an H200 are %+v, want 450 and 4800 GB/s", s)
	}
	if got := c.Limit(s); math.Abs(got-1e-6) > 1e-15 {
		t.Errorf("4.8 MB at 4,800 GB/s take %g s, want 1e-6", got)
	}
	if name, gbps := s.LimitName(ep.Activation); name != "memory limit" || gbps != 4800 || c.Bytes() != 4_800_000 {
		t.Errorf("got the %s of %d bytes at %g GB/s, want the memory limit of 4800000 bytes at 4800 GB/s", name, c.Bytes(), gbps)
	}
	if got := (reports.Speeds{Memory: 4300}).Of(ep.Machine{PCIID: "10de:2335"}); got.Memory != 4300 {
		t.Errorf("the given speed of 4300 GB/s became %g", got.Memory)
	}
	c.Problem.Op, c.Load.BytesMemory, c.Load.BytesWire = ep.Dispatch, 0, 450_000
	if got := c.Limit(s); math.Abs(got-1e-6) > 1e-15 || !math.IsNaN(c.MemoryLimit(s.Memory)) {
		t.Errorf("a dispatch has limit %g and memory limit %g", got, c.MemoryLimit(s.Memory))
	}
	if !math.IsNaN((&reports.Case{}).MemoryLimit(1)) {
		t.Error("a case without bytes has a limit")
	}
}
