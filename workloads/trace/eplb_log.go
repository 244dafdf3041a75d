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

// eplbLine matches the lines that vLLM prints with eplb_config.log_balancedness (vllm-project/vllm,
// vllm/distributed/eplb/eplb_state.py, EplbState.step). vLLM has printed three kinds:
//
//   - "EPLB step: avg_tokens=...": mean and maximum over ranks.
//   - "EPLB step: N for model M: avg_tokens=...": mean and maximum over layers (vLLM PR 51784).
//   - The same text, but mean and maximum over ranks (PR 51813).
var eplbLine = regexp.MustCompile(`EPLB step: (?:(\d+) for model (\S+): )?avg_tokens=([\d.]+), ?max_tokens=(\d+), ?balancedness=([\d.]+)`)

// openEPLBLog always returns an error, because a vLLM log holds no counts. The error has the
// figures of the EPLB lines.
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

const maxLogLine = 1 << 20

type eplbSummary struct {
	steps, idle   int     // lines with and without tokens
	sum, lowest   float64 // of balancedness
	ranksOrLayers bool    // some lines do not show whether their figures are over ranks or over layers
	firstModel    string
	severalModels bool
}

// add counts a line. It returns an error if the line's balancedness is not avg_tokens / max_tokens.
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
	// the printed values are rounded
	if slack := 0.5e-4 + 0.5e-2/most; math.Abs(avg/most-balance) > slack*1.02 {
		return fmt.Errorf("avg_tokens=%g divided by max_tokens=%g is %.4f, but balancedness is %.4f", avg, most, avg/most, balance)
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
		return errors.New("the log has no EPLB lines of vLLM, and no routing")
	case s.severalModels:
		return errors.New("the log has EPLB lines of several models, and no counts of experts; " + record)
	}
	mean := s.sum / float64(s.steps)
	what := fmt.Sprintf("the busiest rank took %.3f times the mean, %.3f times in the worst step", 1/mean, 1/s.lowest)
	if s.ranksOrLayers {
		what = fmt.Sprintf("the mean divided by the maximum is %.3f, over ranks if vLLM has PR 51813, otherwise over layers", mean)
	}
	return fmt.Errorf("%d EPLB steps: %s. A log holds no counts of experts; %s", s.steps, what, record)
}
