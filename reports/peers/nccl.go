package peers

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// nccl reads the table that alltoall_perf of NVIDIA/nccl-tests prints.
var nccl = Format{
	Name:   "nccl",
	Doc:    "table printed by nccl-tests alltoall_perf",
	Detect: func(head []byte) bool { return ncclHeader.Match(head) },
	Read:   readNCCL,
}

// ncclJSON reads the file that nccl-tests writes with -J.
var ncclJSON = Format{
	Name: "nccl-json",
	Doc:  "JSON written by nccl-tests alltoall_perf -J",
	Detect: func(head []byte) bool {
		return firstByte(head) == '{' && bytes.Contains(head, []byte(`"nccl_version"`))
	},
	Read: readNCCLJSON,
}

var (
	ncclHeader = regexp.MustCompile(`(?m)^#\s+size\s+count\s+type\s+redop`)
	ncclRank   = regexp.MustCompile(`(?m)^#\s+Rank\s+\d+ `)
	ncclTest   = regexp.MustCompile(`(?:starting|concluded): (\S+)|(?:^|[\s/])(\w+_perf)(?:_mpi)?\b`)
)

const ncclNote = "%g us of an all-to-all with equal splits, mean over iterations; no routing, no weights, so a lower limit for a dispatch or combine built on it"

func readNCCL(data []byte, g Given) ([]Figure, []string, error) {
	if g.Ranks == 0 {
		g.Ranks = len(ncclRank.FindAll(data, -1))
	}
	c := ncclRows{given: g}
	var header []string
	test := "" // whose rows come, as far as the file says
	for line := range strings.Lines(string(data)) {
		if m := ncclTest.FindStringSubmatch(line); m != nil {
			if test = cmp.Or(m[1], m[2]); !strings.Contains(test, "alltoall") {
				c.other(test)
			}
		}
		if ncclHeader.MatchString(line) {
			header = strings.Fields(strings.TrimPrefix(line, "#"))
			continue
		}
		if header == nil || strings.HasPrefix(line, "#") {
			continue
		}
		if test != "" && !strings.Contains(test, "alltoall") {
			continue
		}
		if err := c.row(header, strings.Fields(line)); err != nil {
			return nil, nil, err
		}
	}
	return c.done()
}

// row reads one line by the header's column names; the out-of-place columns
// come first.
func (c *ncclRows) row(header, f []string) error {
	at, bad := slices.Index(header, "time"), slices.IndexFunc(header, func(h string) bool { return h == "#wrong" || h == "error" })
	if at < 0 || bad < 0 {
		return nil
	}
	// An all-to-all reduces nothing: some versions leave redop, and root, blank.
	if blank := len(header) - len(f); blank > 0 && blank <= at-slices.Index(header, "redop") {
		at, bad = at-blank, bad-blank
	}
	if len(f) <= max(at, bad) {
		return nil
	}
	if redop := f[min(3, len(f)-1)]; slices.Contains([]string{"sum", "prod", "max", "min", "avg", "mulsum"}, redop) {
		c.other("a reduction (" + redop + ")")
		return nil
	}
	size, err := strconv.ParseInt(f[0], 10, 64)
	if err != nil {
		return nil
	}
	us, err := number(f[at])
	if err != nil {
		return fmt.Errorf("size %d: time: %w", size, err)
	}
	wrong := f[bad]
	if v, err := strconv.ParseFloat(wrong, 64); err == nil && v == 0 {
		wrong = "0"
	}
	c.add(size, us, wrong)
	return nil
}

func readNCCLJSON(data []byte, g Given) ([]Figure, []string, error) {
	var doc struct {
		Args   []string `json:"args"`
		Config struct {
			Devices []json.RawMessage `json:"devices"`
		} `json:"config"`
		Results []struct {
			Size       int64 `json:"size"`
			OutOfPlace *struct {
				Time  float64  `json:"time"`
				Wrong *float64 `json:"nwrong"`
			} `json:"out_of_place"`
		} `json:"results"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, nil, err
	}
	if len(doc.Args) > 0 && !strings.Contains(doc.Args[0], "alltoall") {
		return nil, nil, fmt.Errorf("this is %s; only alltoall_perf moves what a dispatch moves", doc.Args[0])
	}
	if g.Ranks == 0 {
		g.Ranks = len(doc.Config.Devices)
	}
	c := ncclRows{given: g}
	for _, r := range doc.Results {
		if r.OutOfPlace == nil {
			continue
		}
		wrong := "N/A"
		if r.OutOfPlace.Wrong != nil {
			wrong = strconv.FormatFloat(*r.OutOfPlace.Wrong, 'g', -1, 64)
		}
		c.add(r.Size, r.OutOfPlace.Time, wrong)
	}
	return c.done()
}

// ncclRows turns sizes into token counts: size is what one rank sends, own
// part included, which is tokens x top-k rows of BF16.
type ncclRows struct {
	given   Given
	rows    int      // seen
	odd     int      // sizes that are no whole number of tokens
	wrong   int      // sizes with wrong elements
	others  []string // tests whose rows were left out
	figures []Figure
}

// other notes a test that moves something else.
func (c *ncclRows) other(test string) {
	if !slices.Contains(c.others, test) {
		c.others = append(c.others, test)
	}
}

func (c *ncclRows) add(size int64, us float64, wrong string) {
	c.rows++
	g := c.given
	row := int64(g.TopK) * int64(g.Hidden) * 2
	switch {
	case wrong != "0" && wrong != "N/A":
		c.wrong++
		return
	case row == 0 || size == 0 || size%row != 0 || size/row > ep.MaxTokens:
		c.odd++
		return
	}
	g.Tokens = int(size / row)
	for _, op := range []ep.Op{ep.Dispatch, ep.Combine} {
		c.figures = append(c.figures, Figure{
			Kernel: "nccl-alltoall", Problem: g.problem(op, ep.BF16), Seconds: us * 1e-6,
			Clock: "event", Note: fmt.Sprintf(ncclNote, us),
		})
	}
}

func (c *ncclRows) done() ([]Figure, []string, error) {
	if len(c.others) > 0 && c.rows == 0 {
		return nil, nil, fmt.Errorf("this is %s; only alltoall_perf moves what a dispatch moves", strings.Join(c.others, ", "))
	}
	if err := c.given.require("ranks", "hidden", "topk", "experts"); err != nil {
		return nil, nil, err
	}
	if c.rows == 0 {
		return nil, nil, errors.New("the table has no rows")
	}
	var warnings []string
	if c.odd > 0 {
		warnings = append(warnings, fmt.Sprintf("%d of %d sizes are no whole number of tokens x %d rows of %d BF16 and were left out",
			c.odd, c.rows, c.given.TopK, c.given.Hidden))
	}
	if c.wrong > 0 {
		warnings = append(warnings, fmt.Sprintf("%d of %d sizes had wrong elements and were left out", c.wrong, c.rows))
	}
	if len(c.others) > 0 {
		warnings = append(warnings, fmt.Sprintf("rows of %s left out: only alltoall_perf moves what a dispatch moves", strings.Join(c.others, ", ")))
	}
	if len(c.figures) == 0 {
		return nil, nil, errors.New(strings.Join(warnings, "; "))
	}
	return c.figures, warnings, nil
}
