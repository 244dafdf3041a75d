package peers

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/bounded"
)

// rccl reads the file that rccl-tests writes with -x FILE -Z csv or -Z json (ROCm/rccl-tests 233482b, src/common.cpp).
//
// With MPI, the CSV's header lacks the field `nodes`. Despite their names, `nodes` is the number of communicators, and
// `ranksPerNode` is the number of processes in a communicator. The file does not give the number of hosts.
var rccl = Format{
	Name:   "rccl",
	Doc:    "CSV or JSON that alltoall_perf of rccl-tests writes with -x FILE",
	Checks: "size/time = algBw; busBw/algBw = (ranks-1)/ranks for ranks = ranksPerNode x gpusPerRank",
	Detect: func(head []byte) bool {
		return bytes.HasPrefix(head, []byte("numCycle,collective,")) || firstByte(head) == '[' && bytes.Contains(head, []byte(`"numCycle":`))
	},
	Read: readRCCL,
}

// rcclColumns and rcclMPIColumns name the fields of a row, without and with MPI.
var (
	rcclColumns    = []string{"numCycle", "name", "gpus", "size", "type", "redop", "inPlace", "time", "algBw", "busBw", "wrong"}
	rcclMPIColumns = []string{"numCycle", "name", "nodes", "ranks", "ranksPerNode", "gpusPerRank", "size", "type", "redop", "inPlace", "time", "algBw", "busBw", "wrong"}
)

func readRCCL(data []byte, g Given) ([]Figure, []string, error) {
	rows, err := rcclRows(data)
	if err != nil {
		return nil, nil, err
	}
	c := ncclTable{facts: newFacts(g)}
	for i, row := range rows {
		if row["inPlace"] != "0" {
			continue
		}
		if !strings.EqualFold(row["name"], "AlltoAll") {
			c.refuse(row["name"])
			continue
		}
		if err := c.addRCCL(row); err != nil {
			return nil, nil, fmt.Errorf("row %d: %w", i+1, err)
		}
	}
	return c.done()
}

func rcclRows(data []byte) ([]map[string]string, error) {
	if firstByte(data) == '[' {
		return jsonRows(data, bounded.New(int64(len(data))))
	}
	cost := bounded.New(int64(len(data)))
	text := &recordReader{in: bytes.NewReader(data)}
	in := csv.NewReader(text)
	in.FieldsPerRecord = -1
	if _, err := text.next(in); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	var out []map[string]string
	for {
		fields, err := text.next(in)
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		columns := rcclColumns
		if len(fields) == len(rcclMPIColumns) {
			columns = rcclMPIColumns
		}
		if len(fields) != len(columns) {
			return nil, fmt.Errorf("row %d has %d fields; rccl-tests writes %d without MPI and %d with it", len(out)+1, len(fields), len(rcclColumns), len(rcclMPIColumns))
		}
		if err := cost.Array("rows", int64(len(fields)), fieldBytes); err != nil {
			return nil, err
		}
		row := make(map[string]string, len(fields))
		for i, name := range columns {
			row[name] = strings.Clone(fields[i])
		}
		out = append(out, row)
	}
}

func (c *ncclTable) addRCCL(row map[string]string) error {
	ranks, err := rcclRanks(row)
	if err != nil {
		return err
	}
	if c.ranks != 0 && ranks != c.ranks {
		return fmt.Errorf("the row has %d ranks, other rows have %d; import the runs separately", ranks, c.ranks)
	}
	r := ncclRow{dtype: row["type"], wrong: row["wrong"], algbw: lenient(row["algBw"]), busbw: lenient(row["busBw"])}
	if r.size, err = strconv.ParseInt(row["size"], 10, 64); err != nil {
		return fmt.Errorf("size: %.20q is not a number", row["size"])
	}
	if _, known := typeBytes[r.dtype]; !known {
		return fmt.Errorf("type %.20q is unknown", r.dtype)
	}
	if r.time, err = parsePrinted(row["time"]); err != nil {
		return fmt.Errorf("time: %w", err)
	}
	if err := r.check(ranks); err != nil {
		return err
	}
	c.ranks, c.rows = ranks, append(c.rows, r)
	return nil
}

func rcclRanks(row map[string]string) (int, error) {
	product := 1
	for _, name := range []string{"gpus", "ranksPerNode", "gpusPerRank"} {
		text, there := row[name]
		if !there {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return 0, fmt.Errorf("%s: %.20q is not a whole number from 1 up", name, text)
		}
		product *= n
	}
	if product == 1 {
		return 0, errors.New("the run has one rank, so no data crosses a link")
	}
	if n := row["nodes"]; n != "" && n != "1" {
		return 0, fmt.Errorf("%.20s communicators of %d ranks ran at the same time and shared the links; run alltoall_perf with one communicator", n, product)
	}
	return product, nil
}
