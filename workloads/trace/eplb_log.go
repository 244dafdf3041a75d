package trace

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
)

// eplbLine matches what vLLM prints with eplb_config.log_balancedness: vllm-project/vllm,
// vllm/distributed/eplb/eplb_state.py, EplbState.step. Three versions are known. The oldest prints
// "EPLB step: avg_tokens=..." and takes mean and maximum over ranks. The second prints "EPLB step: N for
// model M: avg_tokens=..." and takes them over layers, [layers, ranks] with dim=0 (vLLM PR 51784). PR
// 51813 returned to ranks, and a line does not tell these two apart.
var eplbLine = regexp.MustCompile(`EPLB step: (?:(\d+) for model (\S+): )?avg_tokens=([\d.]+), ?max_tokens=(\d+), ?balancedness=([\d.]+)`)

// openEPLBLog reads a log of vLLM for what its EPLB lines say. They hold no counts of experts, so that
// there is never a Reader: the error names the figures and what to record in place of them.
func openEPLBLog(path string, _ Options) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(make([]byte, 4096), maxLogLine)
	var s eplbSummary
	for n := 1; in.Scan(); n++ {
		m := eplbLine.FindSubmatch(in.Bytes())
		if m == nil {
			continue
		}
		if err := s.add(m); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("a line is longer than %d bytes", maxLogLine)
	}
	return nil, s.err()
}

// maxLogLine bounds a line of a log.
const maxLogLine = 1 << 20

// eplbSummary adds up EPLB lines.
type eplbSummary struct {
	steps, idle   int
	sum, lowest   float64 // of balancedness
	ranksOrLayers bool
	firstModel    string
	severalModels bool
}

// add checks a line: avg_tokens over max_tokens is its balancedness, within rounding.
func (s *eplbSummary) add(m [][]byte) error {
	avg, err1 := strconv.ParseFloat(string(m[3]), 64)
	most, err2 := strconv.ParseFloat(string(m[4]), 64)
	balance, err3 := strconv.ParseFloat(string(m[5]), 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	if most == 0 {
		s.idle++
		return nil
	}
	// max_tokens is printed as a whole number, and is one.
	if slack := 0.5e-4 + 0.5e-2/most; math.Abs(avg/most-balance) > slack*1.02 {
		return fmt.Errorf("avg_tokens=%g over max_tokens=%g is %.4f, balancedness says %.4f", avg, most, avg/most, balance)
	}
	if model := string(m[2]); model != "" {
		s.ranksOrLayers = true
		s.severalModels = s.severalModels || s.firstModel != "" && s.firstModel != model
		s.firstModel = model
	}
	if s.steps == 0 || balance < s.lowest {
		s.lowest = balance
	}
	s.steps, s.sum = s.steps+1, s.sum+balance
	return nil
}

func (s *eplbSummary) err() error {
	const record = "record expert_load_window and physical_to_logical_map with numpy.savez, or start vLLM with --enable-return-routed-experts"
	switch {
	case s.steps == 0 && s.idle > 0:
		return fmt.Errorf("%d EPLB steps without tokens; %s", s.idle, record)
	case s.steps == 0:
		return errors.New("a log without EPLB lines of vLLM; it holds no routing")
	case s.severalModels:
		return errors.New("EPLB lines of several models in one log, and no counts of experts; " + record)
	}
	mean := s.sum / float64(s.steps)
	what := fmt.Sprintf("the busiest rank took %.3f times the mean, %.3f times in the worst step", 1/mean, 1/s.lowest)
	if s.ranksOrLayers {
		what = fmt.Sprintf("mean over maximum is %.3f, of ranks since vLLM PR 51813 and of layers in versions before it, which a line does not tell apart", mean)
	}
	return fmt.Errorf("%d EPLB steps: %s. A log holds no counts of experts; %s", s.steps, what, record)
}
