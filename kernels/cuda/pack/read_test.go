package pack

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

func TestReadChecksManifest(t *testing.T) {
	good := build(t, func(r *Request) { r.Problem.MaxTokens = 8 }, row(ep.Dispatch, 1, 4096, dispatchLL, 1)).Data
	for old, c := range map[string]struct{ new, want string }{
		`"ranks": 2`:     {`"ranks": 0`, "ranks"},
		`"nodes": 1`:     {`"nodes": 0`, "nodes"},
		`"hidden": 7168`: {`"hidden": -168`, "hidden"},
		`"dtypes": [`:    {`"dtypez": [`, "manifest names 0"},
	} {
		bad := bytes.Replace(good, []byte(old), []byte(c.new), 1)
		if bytes.Equal(bad, good) {
			t.Fatalf("%s is not in the manifest", old)
		}
		if _, err := Read(reseal(bad)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.new, err, c.want)
		}
	}
}

// TestRecordsNameEachOther: configs, states, launches and modules name each other. All are used.
func TestRecordsNameEachOther(t *testing.T) {
	p := build(t, func(r *Request) { r.DTypes = []ep.DType{ep.FP8, ep.BF16} }, row(ep.Dispatch, 1, 512, dispatchLL, 10), row(ep.Dispatch, 513, 4096, dispatchFinal, 20))
	configs, err := records[configRecord](p, secConfigs)
	if err != nil {
		t.Fatal(err)
	}
	launches, err := records[launchRecord](p, secLaunches)
	if err != nil {
		t.Fatal(err)
	}
	states, modules := map[uint32]bool{}, map[uint32]bool{p.head.AlignModule: true, p.head.CallsModule: true}
	for _, c := range configs {
		states[c.State] = true
		if int(c.State) >= len(p.states) || p.states[c.State].DType != c.DType {
			t.Errorf("%s of dtype %d has state %d, which is missing or has another dtype", p.text(c.Key), c.DType, c.State)
		}
	}
	for _, l := range launches {
		modules[l.Module] = true
	}
	if len(states) != len(p.states) || len(modules) != len(p.modules) {
		t.Errorf("%d of %d states and %d of %d modules are used", len(states), len(p.states), len(modules), len(p.modules))
	}
	for m := range modules {
		if int(m) >= len(p.modules) {
			t.Errorf("module %d is used, but there are only %d modules", m, len(p.modules))
		}
	}
}

// TestHeaderBounds: a header can be read alone. Sections must lie within the file.
func TestHeaderBounds(t *testing.T) {
	size := binary.Size(header{})
	if _, err := Read(make([]byte, size)); err == nil || !strings.Contains(err.Error(), "begins with") {
		t.Errorf("%d bytes: %v", size, err)
	}
	if _, err := Read(make([]byte, size-1)); err == nil || !strings.Contains(err.Error(), "fewer than") {
		t.Errorf("%d bytes: %v", size-1, err)
	}
	if p := build(t, nil); p.hosts != (hostsHeader{}) {
		t.Errorf("a pack for one host has a header for several: %v", p.hosts)
	}
	p := &Pack{Data: make([]byte, 100)}
	for _, c := range []struct {
		offset uint64
		count  uint32
		fits   bool
	}{{90, 10, true}, {90, 11, false}, {100, 0, true}, {101, 0, false}} {
		p.head.Sections[secStrings] = section{Offset: c.offset, Count: c.count, Stride: 1}
		if b, err := p.bytes(secStrings); (err == nil) != c.fits || len(b) != int(c.count) && c.fits {
			t.Errorf("section of %d bytes at offset %d of 100: read %d bytes, error %v", c.count, c.offset, len(b), err)
		}
	}
}
