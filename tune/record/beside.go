package record

// Beside sums up one config's rounds beside a matrix product. Each field is a median over rounds. The value of a round
// is that of its slowest rank. Times are in seconds.
type Beside struct {
	Call      Interval `json:"call"`       // a call alone
	CallIn    Interval `json:"call_in"`    // a call while the product runs
	Product   Interval `json:"product"`    // the part of the product that one call overlaps, run without calls
	ProductIn Interval `json:"product_in"` // the same part while calls run
	Both      Interval `json:"both"`       // from the first start to the last end of call and product
	Cost      Interval `json:"cost"`       // Both minus Product
	Slowdown  Interval `json:"slowdown"`   // ProductIn divided by Product
	Done      float64  `json:"done"`       // share of the product done when calls end
	Amount    string   `json:"amount"`     // how much of the product runs beside one call, in words
}

// BesidePair holds the times of a search beside a matrix product.
type BesidePair struct {
	Config  Beside `json:"config"`  // of Decision.Config
	Default Beside `json:"default"` // of Decision.Default

	// Saved is the median of the default's Both minus the config's Both, in seconds. It is nil if the config is the
	// default, or if the two have different numbers of rounds.
	Saved *Interval `json:"saved,omitempty"`
}
