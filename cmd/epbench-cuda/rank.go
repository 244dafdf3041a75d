//go:build cuda

package main

import (
	"cmp"
	"context"
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

func newRank(f *flags) *cobra.Command {
	var split bool
	cmd := &cobra.Command{
		Use:   "rank",
		Short: `Serve one rank on one GPU, for --backend "launch:COMMAND epbench-cuda rank"; needs NVSHMEM`,
		Long: `Serve one rank on one GPU, with the kernels that cross hosts. A launcher starts a process
for each rank and sets the rank's number in a variable: torchrun (RANK), mpirun
(OMPI_COMM_WORLD_RANK), srun (SLURM_PROCID), MPICH (PMI_RANK). All ranks connect back to
epbench, and ranks other than 0 also to rank 0. See epbench docs multinode.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.parseDrill(); err != nil {
				return err
			}
			return serveRank(cmd.Context(), f.options, split)
		},
	}
	cmd.Flags().BoolVar(&split, "split", false, "let the ranks of one host stand for the ranks of several hosts, to try the kernels that cross hosts; tables of such runs have their own machine key")
	return cmd
}

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
		r.line.Failed(ep.LaunchFailed, err.Error())
	}
	return err
}

type member struct {
	place    worker.Place
	library  *shmem.Library
	line     *worker.Line
	id       shmem.ID
	listener *net.TCPListener // only on rank 0
}

// invite listens on rank 0 and returns "ADDRESS ID" for the other ranks. ID is the unique id that NVSHMEM needs.
func (r *member) invite(host string) (string, error) {
	var err error
	if r.id, err = r.library.NewID(); err != nil {
		return "", err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "", err
	}
	r.listener = l.(*net.TCPListener)
	return r.listener.Addr().String() + " " + r.id.Text(), nil
}

func (r *member) serve(ctx context.Context, o drive.Options, at drive.Place) error {
	var links []io.ReadWriter
	var zero io.ReadWriter
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

const gatherLimit = 2 * time.Minute

// gather returns rank 0's connections to the other ranks.
func (r *member) gather() ([]io.ReadWriter, error) {
	links, err := r.line.Gather(r.listener, gatherLimit)
	if err != nil {
		return nil, fmt.Errorf("%w; every host must reach %s; EPBENCH_LISTEN chooses the network", err, r.listener.Addr())
	}
	return links, nil
}

// meet connects this rank to rank 0.
func (r *member) meet() (io.ReadWriter, error) {
	address, id, _ := strings.Cut(r.line.Meet, " ")
	var err error
	if r.id, err = shmem.ParseID(id); err != nil {
		return nil, err
	}
	link, err := r.line.Visit(address)
	if err != nil {
		return nil, fmt.Errorf("rank %d: %w; every host must reach the address of rank 0, see EPBENCH_LISTEN in epbench docs multinode", r.place.Rank, err)
	}
	return link, nil
}
