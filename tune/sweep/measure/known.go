package measure

import (
	"errors"
	"fmt"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// RecordedBlocks indexes the blocks of a log, for resuming.
type RecordedBlocks struct {
	blocks map[blockID][]record.Result
}

type blockID struct {
	problem ep.Problem
	routing string
	stage   record.Stage
	block   int
}

// IndexBlocks indexes the blocks of a log. A repeated block is an error.
func IndexBlocks(results []record.Result) (*RecordedBlocks, error) {
	k := &RecordedBlocks{blocks: map[blockID][]record.Result{}}
	for start := 0; start < len(results); {
		end := start
		for end < len(results)-1 && !results[end].End {
			end++
		}
		r := &results[start]
		id := blockID{r.Problem, r.Routing, r.Stage, r.Block}
		if _, ok := k.blocks[id]; ok {
			return nil, fmt.Errorf("%s: block %d of stage %s is recorded twice for %s under %s",
				record.TrialsFile, r.Block, r.Stage, r.Problem.Key(), r.Routing)
		}
		k.blocks[id] = results[start : end+1]
		start = end + 1
	}
	return k, nil
}

// recordedBlock returns a block of the log, or nil. The program is about to measure the candidates in `live`. If the
// block holds other candidates, recordedBlock returns ErrDiverged.
func (r *Runner) recordedBlock(stage record.Stage, block int, live []int) ([]record.Result, float64, error) {
	if r.Recorded == nil {
		return nil, 0, nil
	}
	w := r.Workload
	lines, ok := r.Recorded.blocks[blockID{w.Problem, w.Spec, stage, block}]
	if !ok {
		return nil, 0, nil
	}
	same := len(lines) == len(live)
	for i := 0; same && i < len(live); i++ {
		same = lines[i].Role == r.role(live[i]) && lines[i].Config.Key() == r.Config(live[i]).Key()
	}
	if !same {
		return nil, 0, fmt.Errorf("%w: block %d of stage %s for %s under %s",
			ErrDiverged, block, stage, w.Problem.Key(), w.Spec)
	}
	return lines, lines[0].Wall, nil
}

// ErrDiverged says that the program can no longer follow the log of an earlier run.
var ErrDiverged = errors.New("the log holds other candidates than this version would measure; start a new run")
