package stat

// An Obs is one reading: the logarithm of the time of Item in Round.
type Obs struct {
	Item, Round int // numbered from 0 without gaps
	Log         float64
}

const polishSteps = 6

// Polish fits Log = item + round by median polish (Tukey 1977). Items without readings are NaN. `anchor` is an item
// that has a reading in every round. The fit begins with the readings of the anchor. Otherwise it would go wrong if
// rounds drift and have few items in common.
func Polish(obs []Obs, anchor int) (item, round []float64) {
	byItem, byRound := groups(obs, func(o Obs) int { return o.Item }), groups(obs, func(o Obs) int { return o.Round })
	item, round = make([]float64, len(byItem)), make([]float64, len(byRound))
	buf := make([]float64, 0, 64)
	fit := func(out []float64, groups [][]int32, rest func(Obs) float64) {
		for g, members := range groups {
			buf = buf[:0]
			for _, k := range members {
				buf = append(buf, obs[k].Log-rest(obs[k]))
			}
			out[g] = medianInPlace(buf)
		}
	}
	ofItem, ofRound := func(o Obs) float64 { return item[o.Item] }, func(o Obs) float64 { return round[o.Round] }
	fit(round, byRound, func(Obs) float64 { return 0 })
	for _, o := range obs {
		if o.Item == anchor {
			round[o.Round] = o.Log
		}
	}
	for range polishSteps {
		fit(item, byItem, ofRound)
		fit(round, byRound, ofItem)
	}
	fit(item, byItem, ofRound)
	return item, round
}

// groups returns the indexes of the readings by key.
func groups(obs []Obs, key func(Obs) int) [][]int32 {
	var counts []int // [key]
	for _, o := range obs {
		for key(o) >= len(counts) {
			counts = append(counts, 0)
		}
		counts[key(o)]++
	}
	out, all := make([][]int32, len(counts)), make([]int32, len(obs))
	for k, n := range counts {
		out[k], all = all[:0:n], all[n:]
	}
	for i, o := range obs {
		out[key(o)] = append(out[key(o)], int32(i))
	}
	return out
}
