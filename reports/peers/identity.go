package peers

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// printed is a rounded positive number: the true value lies between v - half and v + half.
type printed struct{ v, half float64 }

func parsePrinted(text string) (printed, error) {
	v, err := number(text)
	if err != nil {
		return printed{}, err
	}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	_, decimals, _ := strings.Cut(mantissa, ".")
	power, _ := strconv.Atoi(exponent) // 0 without exponent
	return printed{v, 0.5 * math.Pow(10, float64(power-len(decimals)))}, nil
}

// rel returns the relative rounding error of a product or quotient.
func rel(figures ...printed) float64 {
	sum := 0.0
	for _, p := range figures {
		sum += p.half / p.v
	}
	return sum
}

// agrees reports whether two values differ by at most a relative error. It enlarges the error by 2 %, for safety.
func agrees(a, b, relative float64) bool {
	return math.Abs(a-b) <= (relative*1.02+1e-6)*math.Max(math.Abs(a), math.Abs(b))
}

func number(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v > 0) || math.IsInf(v, 1) {
		return 0, fmt.Errorf("%.20q is not a positive number", s)
	}
	return v, nil
}
