package search

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// priors holds what the surrogates of a search assume before they know scores. The usual values
// were chosen on recorded spaces. native/python/search/priors.py tests this choice on other spaces.
type priors struct {
	roughness, switches, nugget, level, params float64 // the most likely values, see surrogate and kernelCorrelation

	// strength multiplies the weight of these values, and of the mean and variance of all kernels'
	// scores. 0 means that only a kernel's own scores count.
	strength float64
}

// usualPriors holds the priors of a search whose strategy names no other priors. switches is the
// roughness of an axis of two values. In recorded spaces the roughness that fits best is mostly
// 0.03 for such an axis, and 0.1 to 1 for other axes. Searches of 25 points on spaces of 2 H100
// lost 1.24 % with a roughness of 0.1 for all axes, and 1.10 % with these values.
var usualPriors = priors{roughness: 0.1, switches: 0.03, nugget: 0.01, level: 0.6, params: 0.5, strength: 1}

// These constants give the weights of the priors at strength 1. A value of roughness, switches,
// nugget, level or params that is n steps from the most likely one loses n * n * stepCost of log
// likelihood. The prior mean has the weight of meanPoints measured points, the prior variance that
// of variancePoints.
const (
	stepCost       = 0.5
	meanPoints     = 1
	variancePoints = 2
)

// priorSetting names one number of priors and lists its allowed values.
type priorSetting struct {
	name   string
	values []float64 // the allowed values
	slot   func(*priors) *float64
}

func (s priorSetting) String() string { return s.name }

var priorSettings = []priorSetting{
	{"roughness", roughnesses, func(p *priors) *float64 { return &p.roughness }},
	{"switches", roughnesses, func(p *priors) *float64 { return &p.switches }},
	{"nugget", nuggets, func(p *priors) *float64 { return &p.nugget }},
	{"level", levels, func(p *priors) *float64 { return &p.level }},
	{"params", paramCorrelations, func(p *priors) *float64 { return &p.params }},
	{"strength", []float64{0, 0.5, 1, 2, 4}, func(p *priors) *float64 { return &p.strength }},
}

// parsePriors parses NAME=NUMBER:NAME=NUMBER. Numbers that are not named keep their usual values.
func parsePriors(text string) (priors, error) {
	out := usualPriors
	for word := range strings.SplitSeq(text, ":") {
		name, number, _ := strings.Cut(word, "=")
		s, err := ep.Find("prior", name, priorSettings, priorSetting.String)
		if err != nil {
			return out, err
		}
		value, err := strconv.ParseFloat(number, 64)
		if err != nil || !slices.Contains(s.values, value) {
			return out, fmt.Errorf("prior %s: %q is not one of %v", name, number, s.values)
		}
		*s.slot(&out) = value
	}
	return out, nil
}
