package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// Place is a process's rank under a launcher such as torchrun or mpirun.
type Place struct {
	Rank, Ranks int
	Local       int // rank among this host's ranks
}

// placeNames lists the variables of torchrun, OpenMPI, MPICH and Slurm. Slurm comes last: if srun started only
// MPICH's daemon, Slurm's variables describe the daemon and not the ranks.
var placeNames = [][3]string{
	{"RANK", "WORLD_SIZE", "LOCAL_RANK"},
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
	{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
	{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
}

// FindPlace reads the launcher's variables. Without them, the process is the only rank.
func FindPlace() (Place, error) {
	for _, n := range []int{3, 2} {
		for _, names := range placeNames {
			if !slices.ContainsFunc(names[:n], func(name string) bool { return os.Getenv(name) == "" }) {
				if n == 2 {
					names[2] = names[0]
				}
				return placeFrom(names)
			}
		}
	}
	return Place{Ranks: 1}, nil
}

func placeFrom(names [3]string) (Place, error) {
	var n [3]int
	for i, name := range names {
		v, err := strconv.Atoi(os.Getenv(name))
		if err != nil || v < 0 || v > ep.MaxRanks {
			return Place{}, fmt.Errorf("%s: %.40q is not a number from 0 to %d", name, os.Getenv(name), ep.MaxRanks)
		}
		n[i] = v
	}
	if n[0] >= n[1] {
		return Place{}, fmt.Errorf("%s: %d must be less than %s, which is %d", names[0], n[0], names[1], n[1])
	}
	return Place{n[0], n[1], n[2]}, nil
}

// Line is a launched rank's connection to epbench.
type Line struct {
	Place
	Meet  string // address at which the other ranks reach rank 0
	Token string
	conn  net.Conn
	in    *bufio.Reader

	mu       sync.Mutex
	beat     Beat
	followed bool // this rank has told epbench that another rank is gone
}

// Join connects to the epbench at EPBENCH_ADDRESS. On rank 0 it calls `meet` with this host's address. `meet` returns
// the address at which the other ranks reach rank 0. On the other ranks, Join waits until rank 0 has connected to
// epbench.
func Join(s Place, meet func(host string) (string, error)) (*Line, error) {
	address, token := os.Getenv(addressEnv), os.Getenv(tokenEnv)
	if address == "" || token == "" {
		return nil, fmt.Errorf("%s: not set; start this command through epbench, with --backend \"launch:...\"", addressEnv)
	}
	l := &Line{Place: s, Token: token}
	var a Admission
	var err error
	l.conn, l.in, a, err = connect(address, token, l.greeting(meet))
	if err != nil {
		return nil, fmt.Errorf("epbench: %w", err)
	}
	l.Meet = a.Meet
	return l, nil
}

func (l *Line) greeting(meet func(host string) (string, error)) func(net.Conn) (Greeting, error) {
	at := ""
	return func(c net.Conn) (Greeting, error) {
		g := Greeting{Rank: l.Rank, Ranks: l.Ranks, PID: os.Getpid()}
		g.Host, _ = os.Hostname()
		if l.Rank == 0 && at == "" {
			host, _, err := net.SplitHostPort(c.LocalAddr().String())
			if err == nil {
				at, err = meet(host)
			}
			if err != nil {
				return g, err
			}
		}
		g.Meet = at
		return g, nil
	}
}

// Gather runs on rank 0. It admits the other ranks, and returns the connections to ranks 1, 2, and so on. It closes the
// listener `at`. If a connection ends later, rank 0 tells epbench that the other rank is gone.
func (l *Line) Gather(at *net.TCPListener, limit time.Duration) ([]io.ReadWriter, error) {
	defer at.Close()
	_ = at.SetDeadline(time.Now().Add(limit))
	var g gate
	joined, ended, full := make(chan peer), make(chan error, 1), make(chan struct{})
	defer close(full)
	go func() {
		ended <- g.accept(at, func(c net.Conn) {
			in := bufio.NewReaderSize(c, maxGreeting)
			greeting, proof, err := g.admit(c, in, l.Token)
			if err == nil && (greeting.Rank < 1 || greeting.Rank >= l.Ranks) {
				err = fmt.Errorf("rank: %d, want 1 to %d", greeting.Rank, l.Ranks-1)
			}
			if err == nil {
				err = json.NewEncoder(c).Encode(Admission{Proof: proof})
			}
			if err != nil {
				_ = json.NewEncoder(c).Encode(Admission{Error: err.Error()})
				c.Close()
				return
			}
			_ = c.SetDeadline(time.Time{})
			select {
			case joined <- peer{readWriter{in, c}, greeting.Rank, l}:
			case <-full:
				c.Close()
			}
		})
	}()
	links := make([]io.ReadWriter, l.Ranks-1)
	for missing := l.Ranks - 1; missing > 0; {
		select {
		case one := <-joined:
			if links[one.rank-1] == nil {
				missing--
			}
			links[one.rank-1] = one // a rank that got no answer (errUnheard) connects again
		case err := <-ended:
			return nil, fmt.Errorf("%d of %d ranks have not joined rank 0 within %v: %w", missing, l.Ranks, limit, err)
		}
	}
	return links, nil
}

type readWriter struct {
	io.Reader
	io.Writer
}

// Visit connects to rank 0's listener. If this connection ends later, the rank tells epbench that rank 0 is gone.
func (l *Line) Visit(address string) (io.ReadWriter, error) {
	c, in, _, err := connect(address, l.Token, func(net.Conn) (Greeting, error) { return Greeting{Rank: l.Rank, Ranks: l.Ranks}, nil })
	if err != nil {
		return nil, fmt.Errorf("connect to rank 0: %w", err)
	}
	return peer{readWriter{in, c}, 0, l}, nil
}

// peer connects this rank to another rank.
type peer struct {
	readWriter
	rank int
	line *Line
}

func (p peer) Read(b []byte) (int, error) {
	n, err := p.readWriter.Read(b)
	if err != nil {
		p.line.follow(p.rank)
	}
	return n, err
}

func (p peer) Write(b []byte) (int, error) {
	n, err := p.readWriter.Write(b)
	if err != nil {
		p.line.follow(p.rank)
	}
	return n, err
}

// Serve answers epbench's requests on rank 0.
func (l *Line) Serve(ctx context.Context, name string, b kernels.Backend) error {
	return Serve(ctx, name, b, l.in, l.conn)
}

// Doing sets the content of the next heartbeats.
func (l *Line) Doing(doing string, waiting bool) {
	l.mu.Lock()
	l.beat = Beat{Doing: doing, Waiting: waiting}
	l.mu.Unlock()
}

// Watch sends the heartbeats of a rank other than 0. It returns when epbench closes the connection.
func (l *Line) Watch() {
	gone := make(chan struct{})
	go func() {
		for {
			if _, err := l.in.ReadByte(); err != nil {
				close(gone)
				return
			}
		}
	}()
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-gone:
			return
		case <-tick.C:
			l.mu.Lock()
			b := l.beat
			l.mu.Unlock()
			l.notify(notifyBeat, b)
		}
	}
}

// Failed tells epbench that this rank failed. It sends nothing if the rank ends only because another rank is
// gone.
func (l *Line) Failed(status ep.Status, reason string) {
	l.mu.Lock()
	followed := l.followed
	l.mu.Unlock()
	if followed {
		return
	}
	at := float64(time.Now().UnixMicro()) / 1e6
	l.notify(notifyFailed, Trouble{Status: status, Reason: reason, At: at})
}

// follow tells epbench once that this rank ends only because another rank is gone.
func (l *Line) follow(rank int) {
	l.mu.Lock()
	known := l.followed
	l.followed = true
	l.mu.Unlock()
	if !known {
		l.notify(notifyFailed, Trouble{Status: ep.Crash, Reason: fmt.Sprintf("rank %d is gone", rank), Follows: true})
	}
}

func (l *Line) notify(method string, params any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// An error is ignored here, because Watch and Serve notice a broken connection.
	_ = json.NewEncoder(l.conn).Encode(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
}
