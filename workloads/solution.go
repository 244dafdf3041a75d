package workloads

import "github.com/epbench/epbench/tune/ep"

// Solution is a parameter that was solved for a target value of a statistic.
type Solution struct {
	Param     string  // name of the parameter, such as sigma
	Value     float64 // value of the parameter
	Statistic string  // name of the statistic, such as gini
	Target    float64 // value of the statistic that was asked for
	Expected  float64 // value of the statistic for the expected loads; Stats has the value for a drawn routing
}

// Solve returns the value of d's parameter for a problem and a seed, if d's spec gives a target for
// a statistic. Otherwise ok is false.
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
