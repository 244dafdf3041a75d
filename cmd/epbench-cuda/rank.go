//go:build cuda

package main

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/kernels/cuda/drive"
	"github.com/epbench/epbench/kernels/cuda/shmem"
	"github.com/epbench/epbench/kernels/worker"
	"github.com/epbench/epbench/tune/ep"
)

// newRank runs one rank of a worker that torchrun, mpirun, srun or a script launches.
func newRank(f *flags) *cobra.Command {
	var split bool
	cmd := &cobra.Command{
		Use:   "rank",
		Short: `One rank on one GPU, for --backend "launch:COMMAND epbench-cuda rank"; needs NVSHMEM`,
		Long: `One rank on one GPU of kernels that cross hosts. A launcher starts one process a
rank, and says by its variables which: torchrun (RANK), mpirun (OMPI_COMM_WORLD_RANK),
srun (SLURM_PROCID), MPICH (PMI_RANK). Rank 0 connects back to epbench, and the others
to rank 0. See docs/multinode.md.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.parseDrill(); err != nil {
				return err
			}
			return serveRank(cmd.Context(), f.options, split)
		},
	}
	cmd.Flags().BoolVar(&split, "split", false, "let ranks of one host count as several hosts, to try what crosses hosts; tables keep such rows apart")
	return cmd
}

// serveRank joins the run that launched this process and serves until it ends.
func serveRank(ctx context.Context, o drive.Options, split bool) error {
	place, err := worker.FindPlace()
	if err != nil {
		return err
	}
	library, err := shmem.Open()
	if err != nil {
		return err
	}
	r := &member{place: place, library: library}
	if r.line, err = worker.Join(place, r.invite); err != nil {
		return err
	}
	if place.Rank > 0 {
		go func() {
			r.line.Watch()
			exit(nil) // epbench has ended, or another rank failed
		}()
	}
	at := drive.Place{Rank: place.Rank, Ranks: place.Ranks, GPU: place.Local, Split: split}
	err = r.serve(ctx, o, at)
	if err != nil {
		r.line.Failed(ep.NoLaunch, err.Error())
	}
	return err
}

// member is this process as one of the ranks of a run.
type member struct {
	place    worker.Place
	library  *shmem.Library
	line     *worker.Line
	id       shmem.ID
	listener net.Listener // of rank 0
}

// invite opens the address of rank 0, and makes the id by which NVSHMEM finds all ranks. Both travel
// through epbench to the other ranks: "ADDRESS ID".
func (r *member) invite(host string) (string, error) {
	var err error
	if r.id, err = r.library.NewID(); err != nil {
		return "", err
	}
	if r.listener, err = net.Listen("tcp", net.JoinHostPort(host, "0")); err != nil {
		return "", err
	}
	return r.listener.Addr().String() + " " + r.id.Text(), nil
}

func (r *member) serve(ctx context.Context, o drive.Options, at drive.Place) error {
	var links []io.ReadWriter
	var zero net.Conn
	var err error
	if r.place.Rank == 0 {
		links, err = r.gather()
	} else {
		zero, err = r.meet()
	}
	if err != nil {
		return err
	}
	if at.GPU, err = drive.ChooseGPU(at.GPU, o.Loopback); err != nil {
		return err
	}
	me, err := drive.OpenRank(o, at, r.library, r.id)
	if err != nil {
		return err
	}
	if r.place.Rank > 0 {
		defer me.Close()
		return me.Follow(zero, func(doing string) { r.line.Doing(cmp.Or(doing, "waiting"), doing == "") })
	}
	b, err := me.Lead(links)
	if err != nil {
		return err
	}
	return r.line.Serve(ctx, "epbench-cuda rank", b)
}

// hail is the first line of a rank's connection to rank 0.
type hail struct {
	Token string `json:"token"`
	Rank  int    `json:"rank"`
}

// gatherLimit bounds the wait for the connections between rank 0 and the others.
const gatherLimit = 2 * time.Minute

// gather accepts the connections of all other ranks, in any order. A connection without
// the run's token, or of a rank that has joined already, is closed.
func (r *member) gather() ([]io.ReadWriter, error) {
	defer r.listener.Close()
	links, missing := make([]io.ReadWriter, r.place.Ranks-1), r.place.Ranks-1
	_ = r.listener.(*net.TCPListener).SetDeadline(time.Now().Add(gatherLimit))
	for missing > 0 {
		c, err := r.listener.Accept()
		if err != nil {
			return nil, fmt.Errorf("%d of %d ranks have not joined rank 0 within %v: %w; every host must reach %s; EPBENCH_LISTEN chooses the network",
				missing, r.place.Ranks, gatherLimit, err, r.listener.Addr())
		}
		rank, err := r.admit(c)
		if err != nil || links[rank-1] != nil {
			c.Close()
			continue
		}
		links[rank-1] = c
		missing--
	}
	return links, nil
}

// greetLimit bounds the wait for a connection's first line, and maxHail its length.
const (
	greetLimit = 10 * time.Second
	maxHail    = 256
)

func (r *member) admit(c net.Conn) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(greetLimit))
	line, err := readLine(c, maxHail)
	if err != nil {
		return 0, err
	}
	var h hail
	if err := json.Unmarshal(line, &h); err != nil {
		return 0, err
	}
	if subtle.ConstantTimeCompare([]byte(h.Token), []byte(r.line.Token)) != 1 || h.Rank < 1 || h.Rank >= r.place.Ranks {
		return 0, errors.New("a connection from outside the run")
	}
	return h.Rank, c.SetReadDeadline(time.Time{})
}

// readLine reads up to the end of a line and no byte further: the bytes after it are the first of the
// conversation between Lead and Follow.
func readLine(c io.Reader, limit int) ([]byte, error) {
	var line []byte
	for one := make([]byte, 1); len(line) < limit; line = append(line, one[0]) {
		if _, err := io.ReadFull(c, one); err != nil {
			return nil, err
		}
		if one[0] == '\n' {
			return line, nil
		}
	}
	return nil, fmt.Errorf("a line is longer than %d bytes", limit)
}

// meet connects to rank 0 at the address in its invitation.
func (r *member) meet() (net.Conn, error) {
	address, id, _ := strings.Cut(r.line.Meet, " ")
	var err error
	if r.id, err = shmem.ParseID(id); err != nil {
		return nil, err
	}
	c, err := net.DialTimeout("tcp", address, gatherLimit)
	if err != nil {
		return nil, fmt.Errorf("rank %d: connect to rank 0: %w; every host must reach its address, see EPBENCH_LISTEN in docs/multinode.md", r.place.Rank, err)
	}
	return c, json.NewEncoder(c).Encode(hail{r.line.Token, r.place.Rank})
}
