package workloads

import (
	"github.com/epbench/epbench/tune/ep"
)

// Solution is a parameter that was solved for a target.
type Solution struct {
	Param    string  // sigma
	Value    float64 // of the parameter
	Aim      string  // gini
	Target   float64 // of the statistic
	Expected float64 // statistic of the expected loads; what a draw has is in Stats
}

// solver is a law whose parameter may be solved.
type solver interface {
	solution(s site) (Solution, error)
}

// Solve says what a target in the spec of d became on p. ok is false when
// there is none.
func Solve(d Distribution, p ep.Problem, seed uint64) (sol Solution, ok bool, err error) {
	r := d.recipe()
	law, isSolver := r.law.(solver)
	if !isSolver {
		return Solution{}, false, nil
	}
	b, err := r.batch(p, seed)
	if err != nil {
		return Solution{}, false, err
	}
	sol, err = law.solution(b.site)
	return sol, err == nil && sol.Aim != "", err
}

func (f family) solution(s site) (Solution, error) {
	if f.aim == "" {
		return Solution{}, nil
	}
	x, err := f.solve(s)
	if err != nil {
		return Solution{}, err
	}
	share, err := f.shares(s, x)
	value := x
	if f.show != nil {
		value = f.show(x)
	}
	return Solution{f.param.name, value, f.aim, f.x, findAim(f.aim).of(share)}, err
}

func (z zipf) solution(s site) (Solution, error) {
	if z.aim == "" {
		return Solution{}, nil
	}
	a, err := z.solve(s)
	share := newUrn(zipfWeights(s.Experts, a)).shares(s.TopK)
	return Solution{"a", a, z.aim, z.a, findAim(z.aim).of(share)}, err
}
