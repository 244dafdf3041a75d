package record

// Beside sums up the rounds of one config beside a matrix product: medians of the slowest rank, in seconds. Times of
// the product are those of the part for one call.
type Beside struct {
	Call      Interval `json:"call"`       // a call alone
	CallIn    Interval `json:"call_in"`    // a call while the product runs
	Product   Interval `json:"product"`    // the product alone
	ProductIn Interval `json:"product_in"` // the product while calls run
	Both      Interval `json:"both"`       // call and product, from the first start to the last end
	Cost      Interval `json:"cost"`       // median over rounds of Both minus Product
	Slowdown  Interval `json:"slowdown"`   // ProductIn divided by Product
	Done      float64  `json:"done"`       // share of the product that was done when the last call ended
	Amount    string   `json:"amount"`     // the part of the product for one call, in words
}

// BesidePair holds the times of a search beside a matrix product.
type BesidePair struct {
	Config  Beside `json:"config"`  // times of Decision.Config
	Default Beside `json:"default"` // times of Decision.Default

	// Saved is the median of the default's Both minus the config's Both, in seconds. It is nil if config and default
	// are the same, or differ in their numbers of rounds.
	Saved *Interval `json:"saved,omitempty"`
}
