package record

// Beside sums up the rounds of one config beside a product: medians over rounds of the
// slowest rank, seconds of one call and of the share of the product that belongs to it,
// with their 95 % intervals. stat.Beside makes it.
type Beside struct {
	Call      Interval `json:"call"`       // a call alone
	CallIn    Interval `json:"call_in"`    // a call while the product runs
	Product   Interval `json:"product"`    // the product alone
	ProductIn Interval `json:"product_in"` // the product while calls run
	Both      Interval `json:"both"`       // both, from the start of the first to the end of the last
	Cost      Interval `json:"cost"`       // both less the product alone, round by round
	Slowdown  Interval `json:"slowdown"`   // ratio of the product beside to alone
	Done      float64  `json:"done"`       // share of the product that was done when the last call ended
	Amount    string   `json:"amount"`     // what one share of the product is, in words
}

// BesidePair is what a search measured beside a product.
type BesidePair struct {
	Config  Beside `json:"config"`  // of Decision.Config
	Default Beside `json:"default"` // of Decision.Default

	// Saved is how much longer both together take with the default than with the config,
	// round by round: unlike costs it needs no reading of the product alone. nil where
	// one has more rounds than the other, or both are one config.
	Saved *Interval `json:"saved,omitempty"`
}
