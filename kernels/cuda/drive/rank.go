//go:build cuda

package drive

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gorgonia.org/cu"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/shmem"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// Place is the rank and the GPU of a launched process.
type Place struct {
	Rank, Ranks int
	GPU         int
	Split       bool // one host may count as several
}

// Rank is one launched process, with one rank on one GPU. Rank 0 sends tasks to the other ranks.
type Rank struct {
	backend *Backend
	place   Place
	world   *world
	session *session
}

// OpenRank opens this process's GPU and connects it with those of the other ranks. Every rank must call OpenRank with
// the same NVSHMEM id.
func OpenRank(o Options, at Place, l *shmem.Library, id shmem.ID) (*Rank, error) {
	b, err := open(o, at.GPU)
	if err != nil {
		return nil, err
	}
	err = b.node.gpus[0].do(func() error { return l.Join(id, at.Rank, at.Ranks) })
	if err != nil {
		b.Close()
		return nil, err
	}
	b.node.network = l
	return &Rank{backend: b, place: at, world: &world{rank: at.Rank, ranks: at.Ranks, nodes: 1, library: l}}, nil
}

// ChooseGPU returns the GPU of rank `local` of this host. With loopback, ranks may share a GPU.
func ChooseGPU(local int, loopback bool) (int, error) {
	n, err := cu.NumDevices()
	if err != nil || n == 0 {
		return 0, fmt.Errorf("count GPUs: the driver sees %d (%v); check CUDA_VISIBLE_DEVICES", n, err)
	}
	if local >= n && !loopback {
		return 0, fmt.Errorf("local rank %d, but this host has %d GPUs; launch one rank for each GPU, or pass --loopback to let ranks share GPUs", local, n)
	}
	return local % n, nil
}

// task is one request of rank 0 to every rank. Only one field is set.
type task struct {
	Facts   bool
	Open    *workloads.Workload
	Fits    *ep.Config // check memory before Prepare
	Prepare *ep.Config
	Run     *runTask
	Verify  *ep.Config
	Read    *readTask
	Settle  bool // wait for messages in flight
	Reset   bool // fill the memory after Settle
	Close   bool
	End     bool
}

type runTask struct {
	Config       ep.Config
	Rounds, Fold int
}

type readTask struct {
	Part    string
	Bytes   int
	Offsets []int
}

type answer struct {
	Status ep.Status // "" for success
	Reason string
	Faults []wireFault
	Rounds kernels.Rounds
	Data   []byte
	Facts  facts
}

type wireFault struct {
	Rank, Phase, Expert, Source, Block int
	Want, Got                          uint64
}

type facts struct {
	Host    string
	Machine ep.Machine
	Network string
}

// Follow performs the tasks that rank 0 sends, until the task End. It calls `doing` with the name of each task, and
// with "" while it waits.
func (r *Rank) Follow(link io.ReadWriter, doing func(string)) error {
	in, out := gob.NewDecoder(link), gob.NewEncoder(link)
	for {
		doing("")
		var t task
		if err := in.Decode(&t); errors.Is(err, io.EOF) || err == nil && t.End {
			return nil
		} else if err != nil {
			return err
		}
		doing(t.name())
		if err := out.Encode(r.do(t)); err != nil {
			return err
		}
	}
}

func (t task) name() string {
	switch {
	case t.Open != nil:
		return "open"
	case t.Fits != nil, t.Prepare != nil:
		return "prepare"
	case t.Run != nil:
		return "run"
	case t.Verify != nil, t.Read != nil:
		return "verify"
	}
	return "reset"
}

func (r *Rank) do(t task) answer {
	a, err := r.perform(t)
	if err == nil {
		return a
	}
	a.Status, a.Reason = ep.Crash, err.Error()
	var f *kernels.Failure
	if errors.As(err, &f) {
		a.Status, a.Reason = f.Status, f.Reason
	}
	if a.Status == ep.Hang && r.session != nil {
		for _, f := range r.session.ranks.faults() {
			a.Faults = append(a.Faults, wireFault{f.rank, f.phase, f.expert, f.source, f.block, f.want, f.got})
		}
	}
	return a
}

func (r *Rank) perform(t task) (a answer, err error) {
	if t.Open == nil && !t.Facts && r.session == nil {
		return a, errors.New("no session is open")
	}
	ctx := context.Background()
	switch {
	case t.Facts:
		a.Facts = r.facts()
	case t.Open != nil:
		err = r.open(t.Open)
	case t.Fits != nil:
		err = r.session.checkFits(*t.Fits)
	case t.Prepare != nil:
		err = r.session.Prepare(ctx, *t.Prepare)
	case t.Run != nil:
		a.Rounds, err = r.session.Run(ctx, t.Run.Config, kernels.RunSpec{Rounds: t.Run.Rounds, Fold: t.Run.Fold})
	case t.Verify != nil:
		err = r.verify(ctx, *t.Verify)
	case t.Read != nil:
		var pieces [][]byte
		pieces, err = r.session.read(0, t.Read.Part, t.Read.Bytes, t.Read.Offsets...)
		a.Data = slices.Concat(pieces...)
	case t.Settle:
		err = r.backend.node.gpus[0].do(func() error {
			r.world.library.Quiet()
			return cu.Synchronize()
		})
	case t.Reset:
		err = r.session.ranks.reset()
	case t.Close:
		err = r.session.Close()
		r.session = nil
	}
	return a, err
}

func (r *Rank) verify(ctx context.Context, c ep.Config) error {
	k, err := r.session.prepared(c)
	if err != nil {
		return err
	}
	return r.session.runVerification(ctx, k)
}

func (r *Rank) open(w *workloads.Workload) error {
	if r.session != nil {
		if err := r.session.Close(); err != nil {
			return err
		}
		r.session = nil
	}
	r.world.nodes = w.Problem.Nodes
	ranks, err := newWorldRankSet(r.backend.node, r.world, r.backend.options.Deadline)
	if err != nil {
		return err
	}
	r.session, err = sessionOn(ranks, r.backend, w)
	return err
}

func (r *Rank) Close() {
	if r.session != nil {
		_ = r.session.Close()
	}
	r.backend.Close()
}

const devices = "/sys/class/infiniband"

func (r *Rank) facts() facts {
	host, _ := os.Hostname()
	return facts{Host: host, Machine: r.backend.machine, Network: networkOf(devices)}
}

// networkOf returns the number and rate of the network devices in a folder, such as "8x400G". Without devices it
// returns "none".
func networkOf(folder string) string {
	found, _ := filepath.Glob(filepath.Join(folder, "*", "ports", "1", "rate"))
	if len(found) == 0 {
		return "none"
	}
	text, err := os.ReadFile(found[0])
	rate, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ") // "400 Gb/sec (4X NDR)"
	if err != nil || rate == "" {
		rate = "?"
	}
	return fmt.Sprintf("%dx%sG", len(found), rate)
}
