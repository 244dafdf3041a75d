package record

// Beside sums up the rounds of one config in which a matrix product ran at the same time as the
// calls. Each time is the median over rounds of the slowest rank, in seconds, with its 95 %
// interval. Times of the product refer to the part of the product that belongs to one call.
type Beside struct {
	Call      Interval `json:"call"`       // a call alone
	CallIn    Interval `json:"call_in"`    // a call while the product runs
	Product   Interval `json:"product"`    // the product alone
	ProductIn Interval `json:"product_in"` // the product while calls run
	Both      Interval `json:"both"`       // call and product together, from the first start to the last end
	Cost      Interval `json:"cost"`       // median over rounds of Both minus Product
	Slowdown  Interval `json:"slowdown"`   // the product's time while calls run, divided by its time alone
	Done      float64  `json:"done"`       // share of the product that was done when the last call ended, from 0 to 1
	Amount    string   `json:"amount"`     // the part of the product that belongs to one call, in words
}

// BesidePair holds the times that a search measured while a matrix product ran.
type BesidePair struct {
	Config  Beside `json:"config"`  // times of Decision.Config
	Default Beside `json:"default"` // times of Decision.Default

	// Saved is the median over rounds of the default's Both minus the config's Both, in seconds. It
	// is nil if config and default are the same, or have different numbers of rounds.
	Saved *Interval `json:"saved,omitempty"`
}
