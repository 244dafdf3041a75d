package record

// Beside sums up the rounds of one config with a matrix product running at the same time.
// Each time is the median over rounds of the slowest rank, in seconds, with its 95 %
// interval. It is the time of one call, or of the share of the product that belongs to one
// call. stat.Beside computes it.
type Beside struct {
	Call      Interval `json:"call"`       // a call alone
	CallIn    Interval `json:"call_in"`    // a call while the product runs
	Product   Interval `json:"product"`    // the product alone
	ProductIn Interval `json:"product_in"` // the product while calls run
	Both      Interval `json:"both"`       // call and product together, from the start of the first to the end of the last
	Cost      Interval `json:"cost"`       // Both less the product alone, round by round
	Slowdown  Interval `json:"slowdown"`   // the product's time while calls run, over its time alone
	Done      float64  `json:"done"`       // share of the product that was done when the last call ended
	Amount    string   `json:"amount"`     // one share of the product, in words
}

// BesidePair holds the times that a search measured while a matrix product ran.
type BesidePair struct {
	Config  Beside `json:"config"`  // of Decision.Config
	Default Beside `json:"default"` // of Decision.Default

	// Saved is the time of call and product together with the default, less that time with
	// the config, in seconds, round by round. Unlike Cost it needs no reading of the product
	// alone. It is nil if config and default have different numbers of rounds, or are the
	// same.
	Saved *Interval `json:"saved,omitempty"`
}
