package workloads

import (
	"errors"
	"fmt"
	"io"

	"github.com/epbench/epbench/workloads/trace"
)

// BalanceOptions holds the options of JudgeBalance.
type BalanceOptions struct {
	Ranks, Redundant int // Redundant: slots for replicas, over all ranks
	Experts          int // 0: smallest multiple of Ranks that covers all experts of the trace
	Windows          int // number of parts of the second half of the tokens
	// If Hosts is above 1, EPLB uses its hierarchical policy where possible, see RebalanceOver.
	Hosts, Groups int
}

// MaxBalanceHosts is the largest allowed value of BalanceOptions.Hosts.
const MaxBalanceHosts = 64

// BalanceResult compares experts in equal blocks (Before) with EPLB's placement (After). For a trace of ids, EPLB sees
// the first half of the tokens, and both placements are judged on the second half. For a trace of counts, EPLB sees the
// same counts on which both placements are judged. This is EPLB's best case.
type BalanceResult struct {
	Experts, TopK int   // TopK: 0 for counts
	Planned       int64 // tokens of the first half; 0 for counts
	Judged        int64 // tokens of the second half; 0 for counts
	Before, After *PlacedLoad
	Windows       []BalanceWindow
	Copies        int // see Placement.Copies
}

// BalanceWindow holds the loads of a part of the second half.
type BalanceWindow struct {
	Tokens        int64   // from the start of the second half to the window's end
	Before, After float64 // busiest rank's load / mean load
}

// JudgeBalance compares two placements of the experts of a trace: equal blocks, and EPLB's. It calls `open` for each
// pass over the trace. If `out` is not nil, JudgeBalance writes the tokens of the second half to the writer that `out`
// returns. The ids of these tokens name slots of the placement, and not experts.
func JudgeBalance(open func() (*trace.Reader, error), o BalanceOptions, out func(topK int, weights bool) (trace.Writer, error)) (*BalanceResult, error) {
	total, err := scanTrace(open)
	if err != nil {
		return nil, err
	}
	j := &balanceJudge{BalanceOptions: o, open: open, all: total, result: BalanceResult{TopK: total.TopK}}
	j.result.Experts = o.Experts
	if o.Experts == 0 {
		j.result.Experts = (len(total.Counts) + o.Ranks - 1) / o.Ranks * o.Ranks
	}
	if j.result.Experts < len(total.Counts) {
		return nil, fmt.Errorf("the trace has expert %d, but %d experts were asked for; ask for at least %d", len(total.Counts)-1, o.Experts, len(total.Counts))
	}
	if total.Kind == trace.Counts {
		return j.counts()
	}
	return j.ids(out)
}

func scanTrace(open func() (*trace.Reader, error)) (trace.Summary, error) {
	r, err := open()
	if err != nil {
		return trace.Summary{}, err
	}
	defer r.Close()
	return r.Scan(nil)
}

type balanceJudge struct {
	BalanceOptions
	open   func() (*trace.Reader, error)
	all    trace.Summary
	result BalanceResult
	before *Placement
	after  *Placement
}

func (j *balanceJudge) plan(counts []int64) (err error) {
	load := make([]int64, j.result.Experts)
	copy(load, counts)
	if j.before, err = InBlocks(len(load), j.Ranks); err != nil {
		return err
	}
	if j.after, err = RebalanceOver(load, j.Redundant, j.Ranks, j.Hosts, max(j.Groups, 1)); err != nil {
		return err
	}
	j.result.Copies = j.after.Copies(j.before)
	j.result.Before, j.result.After = j.empty()
	return nil
}

func (j *balanceJudge) empty() (before, after *PlacedLoad) {
	return newPlacedLoadOver(j.before, j.Hosts), newPlacedLoadOver(j.after, j.Hosts)
}

func (j *balanceJudge) counts() (*BalanceResult, error) {
	if err := j.plan(j.all.Counts); err != nil {
		return nil, err
	}
	for e, n := range j.all.Counts {
		j.result.Before.Expert(e, n)
		j.result.After.Expert(e, n)
	}
	return &j.result, nil
}

func (j *balanceJudge) ids(out func(int, bool) (trace.Writer, error)) (*BalanceResult, error) {
	j.result.Planned = j.all.Rows / 2
	j.result.Judged = j.all.Rows - j.result.Planned
	if j.result.Planned < 1 {
		return nil, errors.New("the trace has one token; each half of the tokens needs at least one")
	}
	counts := make([]int64, j.result.Experts)
	err := j.walk(false, func(_ int64, ids []int32, _ []float32) error {
		for _, e := range ids {
			if e >= 0 {
				counts[e]++
			}
		}
		return nil
	})
	if err == nil {
		err = j.plan(counts)
	}
	if err != nil {
		return nil, err
	}
	var w trace.Writer
	if out != nil {
		if w, err = out(j.all.TopK, j.all.Weights); err != nil {
			return nil, err
		}
	}
	err = j.judge(w)
	if w != nil {
		err = errors.Join(err, w.Close())
	}
	return &j.result, err
}

func (j *balanceJudge) judge(w trace.Writer) error {
	n := j.result.Judged
	size := max(1, (n+int64(j.Windows)-1)/int64(max(1, j.Windows)))
	before, after := j.empty()
	plain := make([]int32, j.all.TopK)
	return j.walk(true, func(token int64, ids []int32, weights []float32) error {
		token -= j.result.Planned
		start := token / size * size
		source := int((token - start) * int64(j.Ranks) / min(size, n-start))
		copy(plain, ids)
		before.Token(source, plain)
		after.Token(source, ids)
		if token+1 == n || (token+1)%size == 0 {
			j.result.Windows = append(j.result.Windows, BalanceWindow{token + 1, before.MaxMeanRank(), after.MaxMeanRank()})
			j.result.Before.merge(before)
			j.result.After.merge(after)
			before, after = j.empty()
		}
		if w == nil {
			return nil
		}
		return w.Write(ids, weights)
	})
}

func (l *PlacedLoad) merge(o *PlacedLoad) {
	l.Tokens, l.Remote = l.Tokens+o.Tokens, l.Remote+o.Remote
	for i, n := range o.Slots {
		l.Slots[i] += n
	}
	for r, n := range o.Ranks {
		l.Ranks[r] += n
		for to, n := range o.BetweenRanks[r] {
			l.BetweenRanks[r][to] += n
		}
	}
}

func (j *balanceJudge) walk(second bool, visit func(token int64, ids []int32, weights []float32) error) error {
	r, err := j.open()
	if err != nil {
		return err
	}
	defer r.Close()
	k := r.TopK
	ids, weights := make([]int32, 4096*k), []float32(nil)
	if r.Weights {
		weights = make([]float32, len(ids))
	}
	for token := int64(0); ; {
		n, err := r.Read(ids, weights)
		for i := 0; i < n; i, token = i+1, token+1 {
			if second != (token >= j.result.Planned) {
				continue
			}
			var w []float32
			if weights != nil {
				w = weights[i*k : i*k+k]
			}
			if err := visit(token, ids[i*k:i*k+k], w); err != nil {
				return err
			}
		}
		if err == io.EOF || err == nil && !second && token >= j.result.Planned {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
