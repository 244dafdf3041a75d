package ep

import "fmt"

// Machine identifies hardware by the properties that decide which config is fastest. The name is
// only a label.
type Machine struct {
	Backend string `json:"backend"`      // cpu, cuda, or a name that an external worker gives
	Name    string `json:"name"`         // label
	PCIID   string `json:"pci_id"`       // vendor:device of the GPUs, empty on cpu
	Arch    string `json:"arch"`         // sm_90, amd64
	SMs     int    `json:"sms"`          // SMs of one GPU, hardware threads on cpu
	Memory  int64  `json:"memory_bytes"` // memory of one GPU; on cpu, memory of the host
	GPUs    int    `json:"gpus"`         // GPUs present, 0 on cpu
	Link    string `json:"link"`         // names how the GPUs are connected
	Driver  string `json:"driver"`       // driver version; not in Key, but tables mark answers for another version as unverified
	CUDA    string `json:"cuda"`         // CUDA version; treated like Driver
}

// Predicted is the backend of a machine whose times come from a model.
const Predicted = "predicted"

// Rehearsal returns the sentence that marks times of the CPU backend, "" for others. Ranks 0 is
// unknown.
func (m Machine) Rehearsal(ranks int) string {
	if m.Backend != "cpu" {
		return ""
	}
	goroutines := "goroutines"
	if ranks > 0 {
		goroutines = Count(ranks, "goroutine")
	}
	return fmt.Sprintf("rehearsal: %s on %s; says nothing about GPUs", goroutines, Count(m.SMs, "core"))
}

// SessionSpread returns the relative standard deviation of a config's time between sessions. The
// value for GPUs comes from runs on 2 H100 with many sessions (epbench replay sessions).
func (m Machine) SessionSpread() float64 {
	if m.GPUs == 0 {
		return 0
	}
	return 0.02
}

// Key returns the text by which tables identify the machine, with its memory in GiB.
func (m Machine) Key() string {
	return fmt.Sprintf("%s/%s/%s/sms=%d/mem=%dg/link=%s", m.Backend, m.PCIID, m.Arch, m.SMs, m.Memory>>30, m.Link)
}

// Similar reports whether configs tuned on another machine can run on m. Backend, architecture and
// link of the GPUs must be the same. Its GPUs must not have more SMs than those of m, because a
// config names how many SMs it uses.
func (m Machine) Similar(other Machine) bool {
	return m.Key() != other.Key() && other.PCIID != "" && m.PCIID != "" && m.Backend == other.Backend && m.Arch == other.Arch && m.Link == other.Link && m.SMs >= other.SMs
}

// Validate refuses a machine without a backend or with a negative count.
func (m Machine) Validate() error {
	if m.Backend == "" {
		return fmt.Errorf("backend: is empty")
	}
	if m.SMs < 0 || m.Memory < 0 || m.GPUs < 0 {
		return fmt.Errorf("sms: sms, memory_bytes and gpus must not be negative")
	}
	return nil
}
