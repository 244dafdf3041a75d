package sweep

import (
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
	"github.com/epbench/epbench/tune/sweep/measure"
)

// besidePair summarizes the rounds in which `config` and `dflt` ran beside a matrix product. Without a product, it
// returns nil.
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
