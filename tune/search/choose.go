package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/stat"
)

// Preference orders points that tie on time.
type Preference struct {
	Incumbent int               // row of the table in use, -1 where it has none
	Default   int               // the library default
	Neighbour int               // winner of a neighbouring search, -1 where there is none
	Cost      func(int) ep.Cost // of a point
}

// Choose picks from finalists, which are sorted fastest first. Finalists within
// the band of the fastest tie with it. Of these it takes the incumbent, else
// the default, else the neighbour, else the cheapest. The cheapest must be
// within the band by more than the standard error of its difference. Equal
// costs go to the lower index. To take the fastest was not an option: the
// fastest of a tie is the luckiest, and would be another one tomorrow.
// winner and ties are indices of fs; winner is -1 where fs is empty.
func (p Preference) Choose(fs []Finalist, band float64) (winner int, ties []int) {
	if len(fs) == 0 {
		return -1, nil
	}
	var sure []int
	for i, f := range fs {
		over := f.Effect - fs[0].Effect
		if over > math.Log1p(band) {
			break
		}
		ties = append(ties, i)
		if i == 0 || p.rank(f.Point) < 3 || over+fs[0].doubt(f) <= math.Log1p(band) {
			sure = append(sure, i)
		}
	}
	return slices.MinFunc(sure, func(i, j int) int {
		a, b := fs[i].Point, fs[j].Point
		return cmp.Or(cmp.Compare(p.rank(a), p.rank(b)), p.Cost(a).Compare(p.Cost(b)), cmp.Compare(a, b))
	}), ties
}

// doubt is the standard error of the difference between two effects.
func (f Finalist) doubt(g Finalist) float64 {
	return math.Hypot(stat.StdErr(f.clear), stat.StdErr(g.clear))
}

// rank orders points by what they are.
func (p Preference) rank(point int) int {
	switch point {
	case p.Incumbent:
		return 0
	case p.Default:
		return 1
	case p.Neighbour:
		return 2
	}
	return 3
}
