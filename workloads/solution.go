package workloads

import "github.com/epbench/epbench/tune/ep"

// Solution is a parameter that was solved for a target value of a statistic.
type Solution struct {
	Param     string
	Value     float64
	Statistic string
	Target    float64
	Expected  float64 // value of the statistic for the expected loads
}

// Solve returns the solved parameter of d, or ok = false if d's spec gives no target.
func Solve(d Distribution, p ep.Problem, seed uint64) (sol Solution, ok bool, err error) {
	f := d.loadLaw
	if f == nil || f.statistic == "" {
		return Solution{}, false, nil
	}
	b, err := d.batch(p, seed)
	if err != nil {
		return Solution{}, false, err
	}
	x, err := f.solve(b.drawRequest)
	if err != nil {
		return Solution{}, false, err
	}
	share, err := f.shares(b.drawRequest, x)
	if f.show != nil {
		x = f.show(x)
	}
	return Solution{f.param.name, x, f.statistic, f.x, findStatistic(f.statistic).of(share)}, err == nil, err
}
