package search

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// priors holds the assumptions of a search's Gaussian processes. native/python/search/priors.py tests them on recorded
// spaces.
type priors struct {
	roughness, switches, nugget, level, params float64 // most likely values, see surrogate

	// strength multiplies the weight of all priors.
	strength float64
}

// usualPriors holds the default priors. `switches` is the roughness of an axis of two values.
var usualPriors = priors{roughness: 0.1, switches: 0.03, nugget: 0.01, level: 0.6, params: 0.5, strength: 1}

// The allowed values of a setting are in a list. A value that is n places from the most likely one costs stepCost * n^2
// of log likelihood. The prior of the mean weighs as much as meanPoints measured points. The prior of the variance weighs
// as much as variancePoints measured points.
const (
	stepCost       = 0.5
	meanPoints     = 1
	variancePoints = 2
)

type priorSetting struct {
	name   string
	values []float64 // allowed
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

// parsePriors parses NAME=NUMBER:NAME=NUMBER. Priors that the text does not name keep their usual values.
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
