package ep

import "fmt"

// Machine identifies hardware by the properties that decide which config is fastest.
type Machine struct {
	Backend string `json:"backend"` // cpu, cuda or the name of a worker
	Name    string `json:"name"`
	PCIID   string `json:"pci_id"`       // vendor:device of the GPUs
	Arch    string `json:"arch"`         // sm_90, amd64
	SMs     int    `json:"sms"`          // SMs of one GPU, hardware threads on cpu
	Memory  int64  `json:"memory_bytes"` // memory of one GPU; of the host on cpu
	GPUs    int    `json:"gpus"`         // GPUs present, 0 on cpu
	Link    string `json:"link"`         // how the GPUs are connected
	Driver  string `json:"driver"`       // not in Key
	CUDA    string `json:"cuda"`         // not in Key
}

// Predicted is the backend of a machine whose times come from a model.
const Predicted = "predicted"

// Rehearsal returns a warning for the CPU backend: its times say nothing about GPUs. It returns "" for other backends.
// If `ranks` is 0, the warning does not say how many goroutines ran.
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

// SessionSpread says how much the time of a config varies from session to session. It returns a relative standard
// deviation, which was measured on 2 H100.
func (m Machine) SessionSpread() float64 {
	if m.GPUs == 0 {
		return 0
	}
	return 0.02
}

// Key returns the text by which tables identify the machine.
func (m Machine) Key() string {
	return fmt.Sprintf("%s/%s/%s/sms=%d/mem=%dg/link=%s", m.Backend, m.PCIID, m.Arch, m.SMs, m.Memory>>30, m.Link)
}

// Similar reports whether configs tuned on `other` can run on m: backend, architecture and link are equal, and m has
// at least as many SMs.
func (m Machine) Similar(other Machine) bool {
	return m.Key() != other.Key() && other.PCIID != "" && m.PCIID != "" && m.Backend == other.Backend && m.Arch == other.Arch && m.Link == other.Link && m.SMs >= other.SMs
}

// Validate refuses a machine without a backend or with a negative count.
func (m Machine) Validate() error {
	if m.Backend == "" {
		return fmt.Errorf("backend: is empty")
	}
	for _, f := range []struct {
		name  string
		value int64
	}{{"sms", int64(m.SMs)}, {"memory_bytes", m.Memory}, {"gpus", int64(m.GPUs)}} {
		if f.value < 0 {
			return fmt.Errorf("%s: %d is negative; 0 means unknown", f.name, f.value)
		}
	}
	return nil
}
