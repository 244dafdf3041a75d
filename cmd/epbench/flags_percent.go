package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// maxBand limits --band, the least difference between times that counts. With a larger band, nearly all times would
// count as equal.
const (
	maxBand  = 0.5
	maxShare = 1
)

// percentValue reads 3% and 0.03. It refuses 3, which some programs read as 300 %.
type percentValue struct {
	share *float64 // 0.03 for 3 %
	most  float64
	zero  bool // 0 is allowed
}

// percentVar registers a flag for a percentage above 0 and up to `most`.
func percentVar(s *pflag.FlagSet, share *float64, name string, most float64, usage string) {
	s.Var(&percentValue{share: share, most: most}, name, usage)
}

func (p *percentValue) Set(s string) error {
	digits, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	switch {
	case err != nil || math.IsNaN(v):
		return fmt.Errorf("%q is not a percentage; write 3%% or 0.03", s)
	case percent:
		v /= 100
	case v >= 1 && v <= 100*p.most:
		return fmt.Errorf("%q could mean %g %% or %g %%; write %g%% or %g", s, v, 100*v, v, v/100)
	}
	if v < 0 || v == 0 && !p.zero || v > p.most {
		return fmt.Errorf("%q is outside 0%% to %g%%; write 3%% or 0.03", s, 100*p.most)
	}
	*p.share = v
	return nil
}

// String returns a text that Set can read: a run records its flags, and --resume reads them again.
func (p *percentValue) String() string {
	if *p.share == 0 && !p.zero {
		return ""
	}
	return strconv.FormatFloat(100**p.share, 'g', 10, 64) + "%"
}

func (p *percentValue) Type() string { return "percentage" }
