package peers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// ncclJSON reads the file that nccl-tests writes with -J (src/util.cu of NVIDIA/nccl-tests, commit a0b82b2). Its list
// `devices` has one entry for each process, even if a process has several GPUs.
var ncclJSON = Format{
	Name:   "nccl-json",
	Doc:    "JSON written by alltoall_perf -J of nccl-tests",
	Checks: "size/(count x type) = ranks = devices x nthreads x ngpus; size/time = alg_bw; bus_bw/alg_bw = (ranks-1)/ranks",
	Detect: func(head []byte) bool { return looksLikeJSON(head) && bytes.Contains(head, []byte(`"nccl_version"`)) },
	Read:   readNCCLJSON,
}

type ncclDoc struct {
	Args   []string `json:"args"`
	Config struct {
		Threads int `json:"nthreads"`
		GPUs    int `json:"ngpus"`
		Devices []struct {
			Hostname string `json:"hostname"`
		} `json:"devices"`
	} `json:"config"`
	Results []struct {
		Size       int64     `json:"size"`
		Count      int64     `json:"count"`
		Type       string    `json:"type"`
		OutOfPlace *ncclBody `json:"out_of_place"`
	} `json:"results"`
}

type ncclBody struct {
	Time    json.Number `json:"time"`
	CPUTime json.Number `json:"cpu_time"` // instead of time, with -C
	AlgBW   json.Number `json:"alg_bw"`
	BusBW   json.Number `json:"bus_bw"`
	Wrong   *float64    `json:"nwrong"`
}

func readNCCLJSON(data []byte, g Given) ([]Figure, []string, error) {
	var doc ncclDoc
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, nil, err
	}
	if len(doc.Args) > 0 && !isAlltoall(doc.Args[0]) {
		return nil, nil, fmt.Errorf("this is %s; only alltoall_perf (an all-to-all with equal splits) can be imported", doc.Args[0])
	}
	c := ncclTable{facts: newFacts(g)}
	for _, d := range doc.Config.Devices {
		c.host(d.Hostname)
	}
	for _, r := range doc.Results {
		if r.OutOfPlace == nil {
			continue
		}
		if r.OutOfPlace.Time == "" && r.OutOfPlace.CPUTime != "" {
			return nil, nil, errors.New("the times were taken on the host (-C); run alltoall_perf without -C")
		}
		row, err := r.OutOfPlace.row()
		if err != nil {
			return nil, nil, fmt.Errorf("size %d: time: %w", r.Size, err)
		}
		row.size, row.count, row.dtype = r.Size, r.Count, r.Type
		if err := c.add(row); err != nil {
			return nil, nil, err
		}
	}
	if n := len(doc.Config.Devices) * max(doc.Config.Threads, 1) * doc.Config.GPUs; n > 0 && c.ranks > 0 && n != c.ranks {
		return nil, nil, fmt.Errorf("%d devices x %d threads x %d GPUs are %d ranks, but size and count mean %d ranks", len(doc.Config.Devices), doc.Config.Threads, doc.Config.GPUs, n, c.ranks)
	}
	return c.done()
}

func (b ncclBody) row() (r ncclRow, err error) {
	r.wrong = "N/A"
	if b.Wrong != nil {
		r.wrong = strconv.FormatFloat(*b.Wrong, 'g', -1, 64)
	}
	r.algbw, r.busbw = lenient(b.AlgBW.String()), lenient(b.BusBW.String())
	r.time, err = parsePrinted(b.Time.String())
	return r, err
}
