package record

// Beside sums up one config's rounds beside a matrix product: medians of the slowest rank, in seconds.
type Beside struct {
	Call      Interval `json:"call"`       // a call alone
	CallIn    Interval `json:"call_in"`    // a call while the product runs
	Product   Interval `json:"product"`    // the part of the product that runs beside one call, alone
	ProductIn Interval `json:"product_in"` // the same part while calls run
	Both      Interval `json:"both"`       // call and product, first start to last end
	Cost      Interval `json:"cost"`       // Both minus Product
	Slowdown  Interval `json:"slowdown"`   // ProductIn divided by Product
	Done      float64  `json:"done"`       // share of the product done when calls end
	Amount    string   `json:"amount"`     // how much of the product runs beside one call, in words
}

// BesidePair holds the times of a search beside a matrix product.
type BesidePair struct {
	Config  Beside `json:"config"`  // of Decision.Config
	Default Beside `json:"default"` // of Decision.Default

	// Saved is the median of the default's Both minus the config's Both, in seconds. It is nil if both
	// configs are the same, or have different numbers of rounds.
	Saved *Interval `json:"saved,omitempty"`
}
