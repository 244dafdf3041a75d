package peers

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// nccl reads the table that alltoall_perf of nccl-tests prints (src/util.cu of NVIDIA/nccl-tests, commit a0b82b2).
// Versions before 2.13 print "error" instead of "#wrong". Some versions leave redop or root blank.
//
// Columns of the table (src/alltoall.cu):
//
//   - size: bytes that one rank sends to all ranks, itself included
//   - count: elements that one rank sends to each rank
//   - algbw: size/time
//   - busbw: algbw x (ranks-1)/ranks
var nccl = Format{
	Name:   "nccl",
	Doc:    "table printed by alltoall_perf of nccl-tests or rccl-tests",
	Checks: "size/(count x type) = ranks; size/time = algbw; busbw/algbw = (ranks-1)/ranks",
	Detect: func(head []byte) bool { return ncclHeader.Match(head) },
	Read:   readNCCL,
}

var (
	ncclHeader = regexp.MustCompile(`(?m)^#\s+size\s+count\s+type\s+redop`)
	ncclRank   = regexp.MustCompile(`(?m)^#\s+Rank\s+(\d+) .*? on\s+(\S+) device`)
	ncclTest   = regexp.MustCompile(`(?:starting|concluded): (\S+)|(?:^|[\s/])(\w+_perf)(?:_mpi)?\b`)
)

const ncclNote = "%g us of an all-to-all with equal splits, mean of iterations and ranks; it has no routing and no weights, so a dispatch or combine built on it takes longer"

// typeBytes holds the element sizes of nccl-tests' types (src/common.cu, test_typenames).
var typeBytes = map[string]int64{
	"int8": 1, "uint8": 1, "char": 1, "int32": 4, "int": 4, "uint32": 4, "int64": 8, "uint64": 8, "half": 2, "float": 4, "double": 8,
	"bfloat16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1, "f8e4m3": 1, "f8e5m2": 1,
}

type ncclRow struct {
	size, count        int64
	dtype              string
	time, algbw, busbw printed
	wrong              string // "0", "N/A", or a number
}

func readNCCL(data []byte, g Given) ([]Figure, []string, error) {
	c := ncclTable{facts: newFacts(g)}
	for _, m := range ncclRank.FindAllSubmatch(data, -1) {
		c.host(string(m[2]))
	}
	var header []string
	test := "" // program that printed the next rows
	for line := range strings.Lines(string(data)) {
		if m := ncclTest.FindStringSubmatch(line); m != nil {
			test = cmp.Or(m[1], m[2])
			c.refuse(test)
		}
		if ncclHeader.MatchString(line) {
			header = strings.Fields(strings.TrimPrefix(line, "#"))
			continue
		}
		if header == nil || strings.HasPrefix(line, "#") || test != "" && !isAlltoall(test) {
			continue
		}
		row, ok, err := c.parse(header, strings.Fields(line))
		if err == nil && ok {
			err = c.add(row)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return c.done()
}

func isAlltoall(program string) bool {
	return strings.TrimSuffix(path.Base(program), "_mpi") == "alltoall_perf"
}

// ncclTable collects the rows of a table.
type ncclTable struct {
	facts   *facts
	hosts   []string
	rows    []ncclRow
	others  []string // tests other than alltoall_perf
	ranks   int
	odd     int // sizes that are no whole number of tokens
	wrong   int // sizes with wrong elements
	figures []Figure
}

func (c *ncclTable) host(name string) {
	if name != "" && !slices.Contains(c.hosts, name) {
		c.hosts = append(c.hosts, name)
	}
}

func (c *ncclTable) refuse(test string) {
	if !isAlltoall(test) && !slices.Contains(c.others, test) {
		c.others = append(c.others, test)
	}
}

// parse reads the out-of-place times of one line. ok is false if the line is no row.
func (c *ncclTable) parse(header, f []string) (row ncclRow, ok bool, err error) {
	at, bad := slices.Index(header, "time"), slices.IndexFunc(header, func(h string) bool { return h == "#wrong" || h == "error" })
	if at < 0 || bad < 0 {
		return row, false, nil
	}
	// An all-to-all reduces nothing, so redop and root may be blank.
	if blank := len(header) - len(f); blank > 0 && blank <= at-slices.Index(header, "redop") {
		at, bad = at-blank, bad-blank
	}
	if min(at, bad) < 0 || len(f) <= max(at+2, bad) || len(f) < 3 {
		return row, false, nil
	}
	if redop := f[min(3, len(f)-1)]; slices.Contains([]string{"sum", "prod", "max", "min", "avg", "mulsum"}, redop) {
		c.refuse("a reduction (" + redop + ")")
		return row, false, nil
	}
	if row.size, err = strconv.ParseInt(f[0], 10, 64); err != nil {
		return row, false, nil
	}
	if row.count, err = strconv.ParseInt(f[1], 10, 64); err != nil {
		return row, false, fmt.Errorf("size %d: count: %.20q is not a number", row.size, f[1])
	}
	row.dtype, row.wrong = f[2], f[bad]
	if v, err := strconv.ParseFloat(row.wrong, 64); err == nil && v == 0 {
		row.wrong = "0"
	}
	if row.time, err = parsePrinted(f[at]); err != nil {
		return row, false, fmt.Errorf("size %d: time: %w", row.size, err)
	}
	row.algbw, row.busbw = lenient(f[at+1]), lenient(f[at+2])
	return row, true, nil
}

func lenient(text string) printed {
	p, err := parsePrinted(text)
	if err != nil {
		return printed{}
	}
	return p
}

// add stores a row. It returns an error if the row contradicts itself or other rows.
func (c *ncclTable) add(r ncclRow) error {
	if r.size == 0 || r.count == 0 {
		return nil
	}
	bytes, known := typeBytes[r.dtype]
	if !known {
		return fmt.Errorf("size %d: type %.20q is unknown", r.size, r.dtype)
	}
	if r.size%(r.count*bytes) != 0 {
		return fmt.Errorf("size %d is not a multiple of count %d x %d bytes, so size or count is wrong", r.size, r.count, bytes)
	}
	ranks := int(r.size / (r.count * bytes))
	if c.ranks != 0 && ranks != c.ranks {
		return fmt.Errorf("size %d with count %d means %d ranks, but other rows mean %d", r.size, r.count, ranks, c.ranks)
	}
	c.ranks = ranks
	if err := r.check(ranks); err != nil {
		return err
	}
	c.rows = append(c.rows, r)
	return nil
}

func (r ncclRow) check(ranks int) error {
	if r.algbw.v > 0 {
		if want := float64(r.size) / (r.time.v * 1e3); !agrees(want, r.algbw.v, rel(r.time, r.algbw)) {
			return fmt.Errorf("size %d in %g us are %.2f GB/s, but the row says %g GB/s", r.size, r.time.v, want, r.algbw.v)
		}
	}
	if r.algbw.v > 0 && r.busbw.v > 0 {
		if want := r.algbw.v * float64(ranks-1) / float64(ranks); !agrees(want, r.busbw.v, rel(r.algbw, r.busbw)) {
			return fmt.Errorf("size %d: busbw %g GB/s / algbw %g GB/s is not (ranks-1)/ranks for the %d ranks of this row", r.size, r.busbw.v, r.algbw.v, ranks)
		}
	}
	return nil
}

func (c *ncclTable) done() ([]Figure, []string, error) {
	if len(c.rows) == 0 && len(c.others) > 0 {
		return nil, nil, fmt.Errorf("this is %s; only alltoall_perf (an all-to-all with equal splits) can be imported", strings.Join(c.others, ", "))
	}
	if len(c.rows) == 0 {
		return nil, nil, errors.New("the table has no rows")
	}
	g, err := c.facts.with(said{"ranks", "size/(count x type size)", strconv.Itoa(c.ranks)})
	if err == nil {
		err = g.require("hidden", "topk", "experts")
	}
	if err == nil {
		err = g.setNodes(c.facts, len(c.hosts), 0)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, r := range c.rows {
		c.figure(g, r)
	}
	warnings := c.facts.warnings
	if c.odd > 0 {
		warnings = append(warnings, fmt.Sprintf("%d of %d sizes left out: they are not a whole number of tokens x top-%d x hidden %d x 2 bytes", c.odd, len(c.rows), g.TopK, g.Hidden))
	}
	if c.wrong > 0 {
		warnings = append(warnings, fmt.Sprintf("%d of %d sizes left out: they had wrong elements", c.wrong, len(c.rows)))
	}
	if len(c.others) > 0 {
		warnings = append(warnings, fmt.Sprintf("rows of %s left out: only alltoall_perf (an all-to-all with equal splits) can be imported", strings.Join(c.others, ", ")))
	}
	if len(c.figures) == 0 {
		return nil, nil, errors.New(strings.Join(warnings, "; "))
	}
	return c.figures, warnings, nil
}

func (c *ncclTable) figure(g Given, r ncclRow) {
	row := int64(g.TopK) * int64(g.Hidden) * 2
	switch {
	case r.wrong != "0" && r.wrong != "N/A":
		c.wrong++
		return
	case r.size%row != 0 || r.size/row > ep.MaxTokens:
		c.odd++
		return
	}
	g.Tokens = int(r.size / row)
	us := math.Round(r.time.v*1e6) / 1e6
	for _, op := range []ep.Op{ep.Dispatch, ep.Combine} {
		c.figures = append(c.figures, Figure{Kernel: "nccl-alltoall", Problem: g.problem(op, ep.BF16), Seconds: us * 1e-6, Clock: "event", Note: fmt.Sprintf(ncclNote, us)})
	}
}

func looksLikeJSON(head []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(head), []byte("{")) }
