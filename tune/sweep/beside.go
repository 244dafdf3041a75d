package sweep

import (
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
	"github.com/epbench/epbench/tune/sweep/measure"
)

// besidePair summarises the rounds of a config and the default beside a product, nil if nothing
// ran beside them.
func besidePair(r *measure.Runner, config, dflt int) *record.BesidePair {
	c, d := r.Beside(config), r.Beside(dflt)
	if c == nil || d == nil {
		return nil
	}
	pair := &record.BesidePair{Config: stat.Beside(c), Default: stat.Beside(d)}
	if config != dflt {
		pair.Saved = stat.Saved(c, d)
	}
	return pair
}
