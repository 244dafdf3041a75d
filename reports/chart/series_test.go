package chart

import (
	"testing"

	"gonum.org/v1/plot"
)

func TestBands(t *testing.T) {
	at := func(tokens int, lo, hi float64) point {
		return point{tokens: tokens, mid: (lo + hi) / 2, lo: lo, hi: hi}
	}
	undecided := at(16, 1, 2)
	undecided.undecided = true
	s := series{points: []point{at(1, 1, 1), at(2, 1, 2), at(4, 1, 2), at(8, 1, 2), undecided, at(32, 1, 1), at(64, 1, 2)}}
	bands := s.bands(&plot.Axis{Scale: plot.LinearScale{}, Min: 0, Max: 3})
	if len(bands) != 1 || len(bands[0]) != 6 || bands[0][0].X != 2 || bands[0][2].X != 8 {
		t.Errorf("bands %v, want one from 2 to 8 tokens", bands)
	}
	if got := s.highest(); got.undecided {
		t.Errorf("the highest point %v is undecided", got)
	}
}

func TestDodge(t *testing.T) {
	one := []series{{points: []point{{tokens: 8}}}, {points: []point{{tokens: 8}}}, {points: []point{{tokens: 8}}}}
	dodge(one)
	left, middle, right := one[0].x(one[0].points[0]), one[1].x(one[1].points[0]), one[2].x(one[2].points[0])
	if !(left < 7.5 && middle == 8 && right > 8.5 && left > 4 && right < 16) {
		t.Errorf("the series stand at %.2f, %.2f and %.2f tokens, want left of 7.5, 8 and right of 8.5", left, middle, right)
	}
	two := []series{{points: []point{{tokens: 8}, {tokens: 16}}}, {points: []point{{tokens: 8}}}}
	dodge(two)
	if two[0].shift != 0 || two[1].shift != 0 {
		t.Error("series of two token counts are moved")
	}
}
