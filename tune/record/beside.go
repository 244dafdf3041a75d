package record

// Beside sums up the rounds of one config beside a product. Each time is the median over
// rounds of the slowest rank, in seconds, with its 95 % interval, for one call and the
// share of the product that belongs to it. stat.Beside computes it.
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

// BesidePair holds what a search measured beside a product.
type BesidePair struct {
	Config  Beside `json:"config"`  // of Decision.Config
	Default Beside `json:"default"` // of Decision.Default

	// Saved is how many seconds longer call and product together take with the default than
	// with the config, round by round. Unlike Cost it needs no reading of the product alone.
	// It is nil if the two have different numbers of rounds or are one config.
	Saved *Interval `json:"saved,omitempty"`
}
