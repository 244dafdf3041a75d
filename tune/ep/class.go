package ep

import "math"

// Class is a routing class: it says how uneven a routing is. Each row of a table is for one class.
type Class string

// The classes of a known routing, by the two measures of Skew.
const (
	Even         Class = "even"         // all experts and all ranks have about the same load
	Skewed       Class = "skewed"       // the loads of experts or ranks differ, but less than in the two classes below
	Concentrated Class = "concentrated" // less than a fifth of the experts do the work
	HotRank      Class = "hot-rank"     // one rank has at least 1.75 times the mean load, or 1.5 times if there are two ranks
)

// AllRoutings is the class to look up if the routing is unknown. Its row has the config with the
// smallest largest regret over the measured routings.
const AllRoutings Class = "all"

var knownRoutings = [...]Class{Even, Skewed, Concentrated, HotRank}

// Classes lists every class in the order of tables, AllRoutings last.
func Classes() []Class {
	return append(knownRoutings[:len(knownRoutings):len(knownRoutings)], AllRoutings)
}

// ParseClass reads a class name.
func ParseClass(s string) (Class, error) { return oneOf("routing", s, Classes()) }

// The bounds between classes. Share is 1/(1+cv^2), with cv the coefficient of variation of the load
// over experts. HotRankHottest is below 2, so that every draw of a routing that sends one rank
// twice the mean exceeds it.
const (
	EvenShare         = 0.75 // least Share of an even routing
	EvenHottest       = 1.25 // upper bound of Hottest of an even routing, exclusive
	ConcentratedShare = 0.2  // upper bound of Share of a concentrated routing, exclusive
	HotRankHottest    = 1.75 // least Hottest of a hot rank among three ranks or more
)

// Skew measures how uneven a routing is. The unevenness that chance may explain is
// subtracted.
type Skew struct {
	// Share is the effective number of experts, the inverse Simpson index, divided by the number of
	// experts, in (0, 1]. It is estimated without bias from pairs of selections (Simpson, Nature
	// 163, 1949).
	Share float64
	// Hottest is the fullest rank's selections divided by the mean over ranks, in [1, ranks].
	Hottest float64
}

// MeasureSkew computes the skew from how often each expert was selected. Rank 0's experts come
// first, and every rank has equally many. It subtracts three standard deviations of an even routing
// from both measures. A negative count counts as zero. ok is false if all counts are zero or ranks
// does not divide the number of experts.
func MeasureSkew(counts []int64, ranks int) (s Skew, ok bool) {
	if ranks < 1 || len(counts) == 0 || len(counts)%ranks != 0 {
		return Skew{}, false
	}
	perRank := len(counts) / ranks
	var total, pairs, fullest, load float64
	for e, c := range counts {
		n := math.Max(float64(c), 0)
		total += n
		pairs += n * math.Max(n-1, 0) / 2
		if load += n; (e+1)%perRank == 0 {
			fullest, load = math.Max(fullest, load), 0
		}
	}
	if total == 0 {
		return Skew{}, false
	}
	return Skew{Share: share(total, pairs, len(counts)), Hottest: hottest(total/float64(ranks), fullest)}, true
}

// share returns Skew.Share from the selections and the pairs of selections of one expert.
func share(total, pairs float64, experts int) float64 {
	certain := pairs - 3*math.Sqrt(pairs)
	if certain <= 0 {
		return 1
	}
	return math.Min(1, total*(total-1)/2/certain/float64(experts))
}

// hottest returns Skew.Hottest from the mean and the largest number of selections of a rank.
func hottest(mean, fullest float64) float64 {
	return math.Max(1, (fullest-3*math.Sqrt(mean))/mean)
}

// Class returns the routing class of a skew over a number of ranks.
func (s Skew) Class(ranks int) Class {
	switch {
	case ranks > 1 && s.Hottest >= math.Min(HotRankHottest, float64(1+ranks)/2):
		return HotRank
	case s.Share < ConcentratedShare:
		return Concentrated
	case s.Share < EvenShare || s.Hottest >= EvenHottest:
		return Skewed
	}
	return Even
}

// Classify returns the class of the counts that MeasureSkew reads, AllRoutings if it cannot use
// them. With fewer than about 16 selections per expert only strong skew shows.
func Classify(counts []int64, ranks int) Class {
	s, ok := MeasureSkew(counts, ranks)
	if !ok {
		return AllRoutings
	}
	return s.Class(ranks)
}

// Index returns the index of c in Classes, that of AllRoutings for an unknown word. It makes no
// slice, because look-ups call it at every step.
func (c Class) Index() int {
	for i, known := range knownRoutings {
		if c == known {
			return i
		}
	}
	return len(knownRoutings)
}
