package workloads

import "math"

// Expert ids depend on these functions, so they must give the same bits on every machine. On arm64 the compiler may
// fuse x*y+z, which changes bits. Converting x*y to float64 prevents this.

func ln(x float64) float64 {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = m*2, e-1
	}
	s := (m - 1) / (m + 1) // |s| <= 0.172: 12 terms suffice
	s2 := s * s
	sum := 0.0
	for n := 23; n >= 1; n -= 2 {
		sum = float64(sum*s2) + 1/float64(n)
	}
	return float64(float64(e)*math.Ln2) + float64(2*s*sum)
}

// exp returns e^x for x below 700.
func exp(x float64) float64 {
	const ln2Hi, ln2Lo = 6.93147180369123816490e-01, 1.90821492927058770002e-10 // FreeBSD e_exp.c
	k := math.Round(x / math.Ln2)
	r := x - float64(k*ln2Hi) - float64(k*ln2Lo)
	sum := 1.0
	for n := 14; n >= 1; n-- {
		sum = float64(sum*r)/float64(n) + 1
	}
	return math.Ldexp(sum, int(k))
}

func pow(x, y float64) float64 { return exp(y * ln(x)) }

// quantile returns the standard normal quantile of p to 1e-7 (algorithm AS 241, PPND7, Wichura
// 1988).
func quantile(p float64) float64 {
	q := p - 0.5
	if math.Abs(q) <= 0.425 {
		r := 0.180625 - float64(q*q)
		return q * horner(r, 3.3871327179, 50.434271938, 159.29113202, 59.109374720) /
			horner(r, 1, 17.895169469, 78.757757664, 67.187563600)
	}
	r := math.Sqrt(-ln(min(p, 1-p)))
	var z float64
	if r <= 5 {
		z = horner(r-1.6, 1.4234372777, 2.7568153900, 1.3067284816, 0.17023821103) /
			horner(r-1.6, 1, 0.73700164250, 0.12021132975)
	} else {
		z = horner(r-5, 6.6579051150, 3.0812263860, 0.42868294337, 0.017337203997) /
			horner(r-5, 1, 0.24197894225, 0.012258202635)
	}
	return math.Copysign(z, q)
}

func horner(x float64, c ...float64) float64 {
	sum := 0.0
	for i := len(c) - 1; i >= 0; i-- {
		sum = float64(sum*x) + c[i]
	}
	return sum
}
