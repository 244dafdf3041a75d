package cpu

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// worker is a goroutine that runs jobs for one rank.
type worker struct {
	s    *Session
	r    *rank
	id   int // in its rank
	work chan *job
	job  *job

	message    []byte
	targets    [][]byte   // receive slots of the message
	rows       [][]uint16 // to be summed
	weights    []float32  // of the rows
	sentBefore tokenCounter
}

// job is some rounds of one program, a list of stages, on workers 0 to blocks-1 of every rank.
type job struct {
	program  []stage
	blocks   int
	rounds   int
	fold     int
	deadline time.Duration
	fault    fault
	notifier *notifier

	done   sync.WaitGroup
	align  *barrier         // all workers, at the start of a round
	edge   []*barrier       // [rank] between kernels
	starts []time.Time      // [round] when the last rank was ready
	ends   [][]atomic.Int64 // [round][rank] nanoseconds after the start
	stop   atomic.Bool
	failed atomic.Pointer[kernels.Failure]
	begun  chan struct{} // closed when the first round begins; may be nil
	once   sync.Once
}

// stage is one kernel launch. All workers of a rank end a stage before the rank begins its next stage.
type stage struct {
	launch launch
	body   func(w *worker, l launch, set int) bool // false if the job has failed
}

func stages(l launch, async, wait func(*worker, launch, int) bool) []stage {
	if l.split {
		return []stage{{l, async}, {l, wait}}
	}
	return []stage{{l, func(w *worker, l launch, set int) bool { return async(w, l, set) && wait(w, l, set) }}}
}

func dispatchStages(l launch) []stage {
	return stages(l, (*worker).dispatchAsync, (*worker).dispatchWait)
}

func combineStages(l launch) []stage {
	return stages(l, (*worker).combineAsync, (*worker).combineWait)
}

func newJob(program []stage, ranks int, spec kernels.RunSpec, deadline time.Duration) *job {
	j := &job{program: program, blocks: 1, rounds: spec.Rounds, fold: spec.Fold, deadline: deadline, notifier: newNotifier()}
	for _, st := range program {
		j.blocks = max(j.blocks, st.launch.blocks)
	}
	j.align = &barrier{n: int64(ranks * j.blocks)}
	for range ranks {
		j.edge = append(j.edge, &barrier{n: int64(j.blocks)})
	}
	j.starts = make([]time.Time, j.rounds)
	for range j.rounds {
		j.ends = append(j.ends, make([]atomic.Int64, ranks))
	}
	return j
}

func (j *job) begin() {
	j.once.Do(func() {
		if j.begun != nil {
			close(j.begun)
		}
	})
}

// seconds returns the seconds of one call as [round][rank].
func (j *job) seconds() [][]float64 {
	out := make([][]float64, j.rounds)
	for i, ends := range j.ends {
		for r := range ends {
			out[i] = append(out[i], float64(ends[r].Load())/1e9/float64(j.fold))
		}
	}
	return out
}

func (j *job) fail(f *kernels.Failure) {
	j.failed.CompareAndSwap(nil, f)
	j.end()
}

func (j *job) end() {
	j.stop.Store(true)
	j.notifier.notify()
}

func (w *worker) loop() {
	for j := range w.work {
		w.run(j)
		j.done.Done()
	}
}

// hasFault reports whether this worker has fault f. Only rank 0 has faults.
func (w *worker) hasFault(f fault) bool { return w.job.fault == f && w.r.id == 0 }

func (w *worker) run(j *job) {
	w.job = j
	defer func() {
		if v := recover(); v != nil {
			j.fail(kernels.Failf(ep.Crash, "rank %d worker %d: %v", w.r.id, w.id, v))
		}
	}()
	for round := range j.rounds {
		if !w.meet(j.align, "align", func() { j.starts[round] = time.Now(); j.begin() }) {
			return
		}
		for i := range j.fold {
			if !w.call((round*j.fold + i) % sets) {
				return
			}
		}
		raise(&j.ends[round][w.r.id], int64(time.Since(j.starts[round])))
	}
}

func (w *worker) call(set int) bool {
	if w.hasFault(panicking) {
		panic("injected fault")
	}
	for _, st := range w.job.program {
		if w.id < st.launch.blocks && !st.body(w, st.launch, set) {
			return false
		}
		if !w.meet(w.job.edge[w.r.id], "kernel end", w.r.progress.reset) {
			return false
		}
	}
	return true
}

func raise(word *atomic.Int64, v int64) {
	for old := word.Load(); v > old && !word.CompareAndSwap(old, v); old = word.Load() {
	}
}

type barrier struct {
	n          int64
	waiting    atomic.Int64
	generation atomic.Int64
}

// meet waits at a barrier. The last worker calls `last` before the others continue. If the job has ended, meet returns
// false.
func (w *worker) meet(b *barrier, phase string, last func()) bool {
	g := b.generation.Load()
	if b.waiting.Add(1) == b.n {
		last()
		b.waiting.Store(0)
		b.generation.Add(1)
		w.job.notifier.notify()
		return true
	}
	return w.await(func() bool { return b.generation.Load() != g }, func() *kernels.Failure {
		return kernels.Failf(ep.Hang, "rank %d worker %d waited for other workers in %s", w.r.id, w.id, phase)
	}, 2)
}

// polls is the number of checks that a worker makes before it sleeps. They take about 50 us.
const polls = 256

// await polls until ready(). After `patience` times the deadline, the job fails with hang(). Waits for workers of the
// same rank have patience 2. Waits for another rank have patience 1, so that they fail first and name the cause.
func (w *worker) await(ready func() bool, hang func() *kernels.Failure, patience int) bool {
	for range polls {
		if ready() {
			return true
		}
		runtime.Gosched()
	}
	j := w.job
	for since := time.Now(); !ready(); {
		if j.stop.Load() {
			return false
		}
		if time.Since(since) > time.Duration(patience)*j.deadline {
			j.fail(hang())
			return false
		}
		j.notifier.sleep(func() bool { return ready() || j.stop.Load() })
	}
	return true
}

func (w *worker) announce() {
	w.r.ready.Store(true)
	w.job.notifier.notify()
}

// awaitCount waits until a word holds a count, returns the count and resets the word. `expert` is -1 for a count of all
// experts.
func (w *worker) awaitCount(word *atomic.Uint64, phase string, expert, source int) (int64, bool) {
	var got uint64
	ok := w.await(func() bool { got = word.Load(); return got != sentinel }, func() *kernels.Failure {
		what := "messages"
		if expert >= 0 {
			what = fmt.Sprintf("expert %d", expert)
		}
		return kernels.Failf(ep.Hang, "rank %d waited %v in %s for %s from rank %d", w.r.id, w.job.deadline, phase, what, source)
	}, 1)
	if ok {
		word.Store(sentinel)
	}
	return int64(got), ok
}

// wait runs the receiving part of a kernel. Workers with an id below l.pollers() poll for counts. Workers with an id of
// at least l.waitBlocks then call `work`.
func (w *worker) wait(l launch, set int, phase string, poll func(*worker, launch, int) bool, work func(*worker, launch, int)) bool {
	if w.id < l.pollers() && !poll(w, l, set) {
		return false
	}
	if w.id < l.waitBlocks {
		return true
	}
	ok := w.await(w.r.ready.Load, func() *kernels.Failure {
		return kernels.Failf(ep.Hang, "rank %d worker %d waited in %s for the workers of its rank that poll", w.r.id, w.id, phase)
	}, 2)
	if ok {
		work(w, l, set)
	}
	return ok
}
