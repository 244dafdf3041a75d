package record

// Beside sums up the rounds of one config in which a matrix product ran at the same time as the
// calls. Each time is the median over rounds of the slowest rank, in seconds, with its 95 %
// interval. A time of the product is the time of the share of the product that belongs to one
// call. stat.Beside computes these times.
type Beside struct {
	Call      Interval `json:"call"`       // a call alone
	CallIn    Interval `json:"call_in"`    // a call while the product runs
	Product   Interval `json:"product"`    // the product alone
	ProductIn Interval `json:"product_in"` // the product while calls run
	Both      Interval `json:"both"`       // call and product together, from the start of the first to the end of the last
	Cost      Interval `json:"cost"`       // Both minus Product, subtracted in each round
	Slowdown  Interval `json:"slowdown"`   // the product's time while calls run, divided by its time alone
	Done      float64  `json:"done"`       // share of the product that was done when the last call ended
	Amount    string   `json:"amount"`     // one share of the product, in words
}

// BesidePair holds the times that a search measured while a matrix product ran.
type BesidePair struct {
	Config  Beside `json:"config"`  // times of Decision.Config
	Default Beside `json:"default"` // times of Decision.Default

	// Saved is Both of the default minus Both of the config, subtracted in each round, in
	// seconds. Unlike Cost, it does not depend on times of the product alone. It is nil if
	// config and default are the same, or have different numbers of rounds.
	Saved *Interval `json:"saved,omitempty"`
}
