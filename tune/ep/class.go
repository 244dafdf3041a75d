package ep

import "math"

// Class is a routing class: how uneven a routing is.
type Class string

// The classes of a known routing.
const (
	Even         Class = "even"         // experts and ranks have about equal loads
	Skewed       Class = "skewed"       // loads differ, but less than in the next two classes
	Concentrated Class = "concentrated" // few experts do most of the work
	HotRank      Class = "hot-rank"     // one rank has far more than the mean load
)

// AllRoutings is the class of an unknown routing. A table row of this class has the config whose largest loss over all
// measured routings is the smallest.
const AllRoutings Class = "all"

var knownRoutings = [...]Class{Even, Skewed, Concentrated, HotRank}

// Classes lists every class.
func Classes() []Class {
	return append(knownRoutings[:len(knownRoutings):len(knownRoutings)], AllRoutings)
}

// ParseClass reads a class name.
func ParseClass(s string) (Class, error) { return oneOf("routing", s, Classes()) }

// The bounds between classes. MeasureSkew has subtracted a margin for chance before they are compared.
const (
	EvenShare         = 0.75 // smallest Share of an even routing
	EvenHottest       = 1.25 // an even routing has a smaller Hottest
	ConcentratedShare = 0.2  // a concentrated routing has a smaller Share
	HotRankHottest    = 1.75 // smallest Hottest of a hot-rank routing; 1.5 for two ranks
)

// Skew measures how uneven a routing is, without the part that chance may explain.
type Skew struct {
	// Share is the effective number of experts, divided by the number of all experts, in (0, 1]. The effective number is
	// the inverse Simpson index (Simpson, Nature 163, 1949).
	Share float64
	// Hottest is the fullest rank's selections divided by the mean, in [1, ranks].
	Hottest float64
}

// MeasureSkew computes the skew from how often each expert was selected. The counts of rank 0's experts come first, and
// every rank has equally many experts. An even routing can look skewed by chance, so the skew is first lowered by
// three standard deviations. ok is false if all counts are zero, or if the number of experts is not a multiple of the
// number of ranks.
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

func share(total, pairs float64, experts int) float64 {
	certain := pairs - 3*math.Sqrt(pairs)
	if certain <= 0 {
		return 1
	}
	return math.Min(1, total*(total-1)/2/certain/float64(experts))
}

func hottest(mean, fullest float64) float64 {
	return math.Max(1, (fullest-3*math.Sqrt(mean))/mean)
}

// Class returns the routing class of a skew.
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

// Classify returns the class of the counts, or AllRoutings if MeasureSkew cannot use them. With fewer than about 16
// selections per expert, Classify finds only strong skew.
func Classify(counts []int64, ranks int) Class {
	s, ok := MeasureSkew(counts, ranks)
	if !ok {
		return AllRoutings
	}
	return s.Class(ranks)
}

// Index returns the index of c in Classes. An unknown word gets the index of AllRoutings. Index allocates nothing,
// because look-ups in tables call it often.
func (c Class) Index() int {
	for i, known := range knownRoutings {
		if c == known {
			return i
		}
	}
	return len(knownRoutings)
}
