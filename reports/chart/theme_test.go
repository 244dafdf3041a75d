package chart

import (
	"image/color"
	"math"
	"testing"
)

// colourBlind holds matrices of Machado, Oliveira and Fernandes (2009), table 1, for complete protanopia and
// deuteranopia, on linear RGB.
var colourBlind = map[string][3][3]float64{
	"normal":       {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
}

// leastDistance is in CIE L*a*b*. A distance of 2.3 is just noticeable (Mahy and others, 1994).
const leastDistance = 15

func TestPaletteForColourBlind(t *testing.T) {
	for name, sight := range colourBlind {
		for i, a := range palette {
			for j, b := range palette[:i] {
				if d := distance(seen(a, sight), seen(b, sight)); d < leastDistance {
					t.Errorf("%s: colours %d and %d differ by %.1f, want %d", name, j, i, d, leastDistance)
				}
			}
			if d := distance(seen(a, sight), seen(paper, sight)); d < leastDistance {
				t.Errorf("%s: colour %d differs from paper by %.1f", name, i, d)
			}
		}
	}
	if d := distance(seen(color.RGBA{0xff, 0, 0, 0xff}, colourBlind["deuteranopia"]), seen(color.RGBA{0x8f, 0x80, 0, 0xff}, colourBlind["deuteranopia"])); d > leastDistance {
		t.Errorf("red and olive differ by %.1f for deuteranopia, want almost nothing: the simulation does not work", d)
	}
}

func seen(c color.RGBA, sight [3][3]float64) (out [3]float64) {
	linear := [3]float64{}
	for i, v := range []uint8{c.R, c.G, c.B} {
		x := float64(v) / 255
		if linear[i] = x / 12.92; x > 0.04045 {
			linear[i] = math.Pow((x+0.055)/1.055, 2.4)
		}
	}
	for i, row := range sight {
		for j, w := range row {
			out[i] += w * linear[j]
		}
		out[i] = min(1, max(0, out[i]))
	}
	return out
}

// distance returns the CIE 1976 distance of two colours of linear sRGB under D65.
func distance(a, b [3]float64) float64 {
	p, q := lab(a), lab(b)
	return math.Hypot(math.Hypot(p[0]-q[0], p[1]-q[1]), p[2]-q[2])
}

func lab(c [3]float64) [3]float64 {
	f := func(r, g, b, white float64) float64 {
		t := (r*c[0] + g*c[1] + b*c[2]) / white
		if t > 216.0/24389 {
			return math.Cbrt(t)
		}
		return (24389.0/27*t + 16) / 116
	}
	x := f(0.4124564, 0.3575761, 0.1804375, 0.95047)
	y := f(0.2126729, 0.7151522, 0.0721750, 1)
	z := f(0.0193339, 0.1191920, 0.9503041, 1.08883)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}
