package chart

import (
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
)

// linearFactor is the largest ratio of two times for which the time axis is linear.
const linearFactor = 4

func timeAxis(a *plot.Axis, values []float64) {
	lo, hi := slices.Min(values), slices.Max(values)
	if !(lo > 0) || hi > linearFactor*lo {
		logTime(a, values)
		return
	}
	pad := max(0.06*(hi-lo), 0.01*hi)
	a.Min, a.Max = max(lo-pad, 0), hi+pad
	a.Tick.Marker = plot.TickerFunc(roundTicks)
}

func logTime(a *plot.Axis, values []float64) {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if v > 0 {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	if lo > hi {
		lo, hi = 1, 10
	}
	if hi < 2*lo {
		mid := math.Sqrt(lo * hi)
		lo, hi = mid/1.5, mid*1.5
	}
	a.Min, a.Max = lo/1.15, hi*1.15
	a.Scale = plot.LogScale{}
	a.Tick.Marker = plot.TickerFunc(decadeTicks)
}

func decadeTicks(lo, hi float64) []plot.Tick {
	if !(lo > 0) {
		return nil
	}
	labelled := map[int]bool{1: true, 2: true, 5: true}
	if math.Log10(hi/lo) > 3.5 {
		labelled = map[int]bool{1: true}
	}
	var ticks []plot.Tick
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		for m := 1; m < 10; m++ {
			v := float64(m) * math.Pow(10, e)
			if v < lo || v > hi {
				continue
			}
			t := plot.Tick{Value: v}
			if labelled[m] {
				t.Label = strconv.FormatFloat(v, 'g', 4, 64)
				if v >= 1 {
					t.Label = strconv.FormatFloat(v, 'f', 0, 64)
				}
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// zeroToken is the position of 0 tokens on a logarithmic axis.
const zeroToken = 0.5

func tokenX(tokens int) float64 {
	if tokens <= 0 {
		return zeroToken
	}
	return float64(tokens)
}

// logTokens makes an axis logarithmic, with a tick at every measured token count.
func logTokens(a *plot.Axis, counts []int) {
	counts = slices.Compact(slices.Sorted(slices.Values(counts)))
	if len(counts) == 0 {
		counts = []int{1}
	}
	lo, hi := tokenX(counts[0]), tokenX(counts[len(counts)-1])
	if lo == hi {
		lo, hi = lo/2, hi*2
	}
	a.Min, a.Max = lo/1.12, hi*1.12
	a.Scale = plot.LogScale{}
	room := math.Log(a.Max/a.Min) / 16
	var ticks plot.ConstantTicks
	last := math.Inf(-1)
	for i, n := range counts {
		x := math.Log(tokenX(n))
		t := plot.Tick{Value: tokenX(n), Label: " "}
		if x-last >= room || i == 0 {
			t.Label, last = strconv.Itoa(n), x
		}
		ticks = append(ticks, t)
	}
	a.Tick.Marker = ticks
}

// clamp returns v, or the axis minimum if v is lower or NaN.
func clamp(v float64, a *plot.Axis) float64 {
	if !(v > a.Min) {
		return a.Min
	}
	return v
}

func fromZero(a *plot.Axis, hi float64) {
	if !(hi > 0) {
		hi = 1
	}
	a.Min, a.Max = 0, hi*1.08
	a.Tick.Marker = plot.TickerFunc(roundTicks)
}

func roundTicks(lo, hi float64) []plot.Tick {
	raw := (hi - lo) / 5
	if !(raw > 0) {
		return nil
	}
	step := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 2.5, 5, 10} {
		if step*m >= raw {
			step *= m
			break
		}
	}
	var ticks []plot.Tick
	for i := int(math.Ceil(lo/step - 1e-9)); float64(i)*step <= hi+1e-9*step; i++ {
		v := float64(i) * step
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(math.Round(v*1e9)/1e9, 'f', -1, 64)})
	}
	return ticks
}
