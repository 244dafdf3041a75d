//go:build cuda

package drive

import (
	"fmt"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"gorgonia.org/cu"
)

// monitor reads clocks and links through NVML.
type monitor struct {
	library nvml.Interface
	devices []nvml.Device // by GPU; nil if unknown
	why     string        // why there is no NVML

	now  func() time.Time
	last reading
}

type reading struct {
	at    time.Time
	gpus  []int     // GPU of each rank
	mhz   []float64 // clock of each rank
	notes []string  // reasons for low clocks
}

// readingAge is the age up to which a reading is used again. NVML is slow, and a search takes about a thousand samples
// a second.
const readingAge = 20 * time.Millisecond

func openMonitor(n *node) *monitor {
	m := &monitor{library: nvml.New(), devices: make([]nvml.Device, len(n.gpus)), now: time.Now}
	if r := m.library.Init(); r != nvml.SUCCESS {
		m.library, m.why = nil, "clocks and links unknown: NVML: "+returnText(r)
		return m
	}
	for i, g := range n.gpus {
		bus, err := busID(g.device)
		if err != nil {
			continue
		}
		// CUDA_VISIBLE_DEVICES does not renumber NVML's devices.
		if d, r := m.library.DeviceGetHandleByPciBusId(bus); r == nvml.SUCCESS {
			m.devices[i] = d
		}
	}
	return m
}

// returnText describes an NVML error. NVML's ErrorString needs NVML, which may be missing.
func returnText(r nvml.Return) string {
	if r == nvml.ERROR_LIBRARY_NOT_FOUND {
		return "libnvidia-ml.so.1 not found"
	}
	return fmt.Sprintf("error %d", r)
}

func (m *monitor) close() {
	if m.library != nil {
		m.library.Shutdown()
	}
}

func busID(d cu.Device) (string, error) {
	var id [3]int
	for i, a := range []cu.DeviceAttribute{cu.PciDomainID, cu.PciBusID, cu.PciDeviceID} {
		v, err := d.Attribute(a)
		if err != nil {
			return "", err
		}
		id[i] = v
	}
	return fmt.Sprintf("%08x:%02x:%02x.0", id[0], id[1], id[2]), nil
}

// pciID returns vendor:device of a GPU, or "".
func (m *monitor) pciID(gpu int) string {
	d := m.devices[gpu]
	if d == nil {
		return ""
	}
	info, r := d.GetPciInfo()
	if r != nvml.SUCCESS {
		return ""
	}
	return fmt.Sprintf("%04x:%04x", info.PciDeviceId&0xffff, info.PciDeviceId>>16)
}

// link returns how the GPUs are joined:
//   - nvN: each GPU has N active NVLinks
//   - mixed: GPUs have different numbers of NVLinks
//   - pcie: peers without NVLink
//   - apart: no NVLink, and some GPUs cannot address each other
//   - none: a single GPU without NVLink
func (m *monitor) link(n *node) string {
	counts := map[int]bool{}
	most := 0
	for _, d := range m.devices {
		c := links(d)
		counts[c] = true
		most = max(most, c)
	}
	switch {
	case len(counts) > 1:
		return "mixed"
	case most > 0:
		return fmt.Sprintf("nv%d", most)
	case len(n.gpus) == 1:
		return "none"
	case len(n.apart) > 0:
		return "apart"
	}
	return "pcie"
}

func links(d nvml.Device) int {
	if d == nil {
		return 0
	}
	n := 0
	for i := range nvml.NVLINK_MAX_LINKS {
		if state, r := d.GetNvLinkState(i); r == nvml.SUCCESS && state == nvml.FEATURE_ENABLED {
			n++
		}
	}
	return n
}

var throttles = []struct {
	bit  uint64
	text string
}{
	{nvml.ClocksEventReasonSwPowerCap, "power cap"},
	{nvml.ClocksThrottleReasonHwSlowdown, "hardware slowdown"},
	{nvml.ClocksEventReasonSwThermalSlowdown, "software thermal slowdown"},
	{nvml.ClocksThrottleReasonHwThermalSlowdown, "hardware thermal slowdown"},
	{nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, "power brake"},
}

// read returns every rank's SM clock in MHz (nil if unknown), and reasons for low clocks.
func (m *monitor) read(r *rankSet) (mhz []float64, notes []string) {
	var gpus []int
	for _, s := range r.local {
		gpus = append(gpus, s.gpu.index)
	}
	if now := m.now(); !slices.Equal(gpus, m.last.gpus) || now.Sub(m.last.at) >= readingAge {
		m.last = reading{at: now, gpus: gpus}
		m.last.mhz, m.last.notes = m.ask(gpus)
	}
	return slices.Clone(m.last.mhz), slices.Clone(m.last.notes)
}

func (m *monitor) ask(gpus []int) (mhz []float64, notes []string) {
	for rank, gpu := range gpus {
		d := m.devices[gpu]
		if d == nil {
			return nil, nil
		}
		clock, ret := d.GetClockInfo(nvml.CLOCK_SM)
		if ret != nvml.SUCCESS {
			return nil, nil
		}
		mhz = append(mhz, float64(clock))
		if slices.Contains(gpus[:rank], gpu) {
			continue
		}
		reasons, ret := d.GetCurrentClocksThrottleReasons()
		if ret != nvml.SUCCESS {
			continue
		}
		for _, t := range throttles {
			if reasons&t.bit != 0 {
				notes = append(notes, fmt.Sprintf("GPU %d throttled: %s", gpu, t.text))
			}
		}
	}
	return mhz, notes
}
