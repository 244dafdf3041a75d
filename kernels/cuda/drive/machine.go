//go:build cuda

package drive

import (
	"fmt"
	"os"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"gorgonia.org/cu"

	"github.com/epbench/epbench/tune/ep"
)

// describe returns the properties of the machine, from its first GPU.
func describe(n *node, m *monitor) (ep.Machine, error) {
	first := n.gpus[0]
	name, err := first.device.Name()
	if err != nil {
		return ep.Machine{}, err
	}
	memory, err := first.device.TotalMem()
	if err != nil {
		return ep.Machine{}, err
	}
	version := cu.Version()
	return ep.Machine{
		Backend: "cuda",
		Name:    name,
		PCIID:   pciID(n, m),
		Arch:    fmt.Sprintf("sm_%d%d", first.major, first.minor),
		SMs:     first.sms,
		Memory:  memory,
		GPUs:    len(n.gpus),
		Link:    m.link(n),
		Driver:  m.driver(),
		CUDA:    fmt.Sprintf("%d.%d", version/1000, version%1000/10),
	}, nil
}

// pciID returns vendor:device, from NVML or the operating system.
func pciID(n *node, m *monitor) string {
	if id := m.pciID(0); id != "" {
		return id
	}
	bus, err := busID(n.gpus[0].device)
	if err != nil {
		return ""
	}
	dir := "/sys/bus/pci/devices/" + strings.TrimPrefix(bus, "0000")
	vendor, verr := os.ReadFile(dir + "/vendor")
	device, derr := os.ReadFile(dir + "/device")
	if verr != nil || derr != nil {
		return ""
	}
	hex := func(b []byte) string { return strings.TrimPrefix(strings.TrimSpace(string(b)), "0x") }
	return hex(vendor) + ":" + hex(device)
}

func (m *monitor) driver() string {
	if m.library != nil {
		if v, r := m.library.SystemGetDriverVersion(); r == nvml.SUCCESS {
			return v
		}
	}
	text, err := os.ReadFile("/proc/driver/nvidia/version")
	if err != nil {
		return ""
	}
	for _, word := range strings.Fields(string(text)) {
		if strings.Count(word, ".") >= 1 && strings.Trim(word, "0123456789.") == "" {
			return word
		}
	}
	return ""
}
