package drive

import (
	"errors"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// topology is the number of launched ranks and hosts.
type topology struct {
	ranks, hosts int
	split        bool // one host may count as several
}

func (t topology) condition() kernels.Condition {
	nodes := fmt.Sprintf("problem.nodes == %d", t.hosts)
	if t.split {
		nodes = fmt.Sprintf("problem.nodes %% %d == 0", t.hosts)
	}
	return kernels.Condition{Expr: fmt.Sprintf("problem.ranks == %d && %s", t.ranks, nodes), Reason: "ranks and nodes must be the numbers that were launched"}
}

// check refuses problems that cannot run on the launched ranks.
func (t topology) check(p ep.Problem) error {
	switch {
	case p.Op == ep.Activation:
		return errors.New("op: activation sends nothing to other hosts; use --backend cuda")
	case p.Layout != ep.LayoutExpert:
		return fmt.Errorf("layout: %s, but the kernels that cross hosts serve only expert", p.Layout)
	case p.Beside != "":
		return fmt.Errorf("beside: %s cannot be measured with several processes; use --backend cuda", p.Beside)
	case p.Ranks != t.ranks:
		return fmt.Errorf("ranks: %d, but %d were launched; use --ranks %d", p.Ranks, t.ranks, t.ranks)
	case p.Nodes == t.hosts || p.Nodes%t.hosts == 0 && t.split:
		return nil
	case t.split:
		return fmt.Errorf("nodes: %d is no multiple of the %d hosts that were launched", p.Nodes, t.hosts)
	}
	return fmt.Errorf("nodes: %d, but the ranks were launched on %d hosts; use --nodes %d, or epbench-cuda rank --split to let one host count as several",
		p.Nodes, t.hosts, t.hosts)
}
