package ep

// RunTime says how many seconds each step of a worker's runs took, 0 if not measured.
type RunTime struct {
	Graphs float64 `json:"graphs"` // making CUDA graphs
	Rounds float64 `json:"rounds"` // from first launch to last reading
	Clocks float64 `json:"clocks"` // reading clock rates
}

// Plus returns the sum of t and o.
func (t RunTime) Plus(o RunTime) RunTime {
	return RunTime{t.Graphs + o.Graphs, t.Rounds + o.Rounds, t.Clocks + o.Clocks}
}

// StageTime holds the time of one stage of a layer.
type StageTime struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"` // of one call
}

// CheckTime says how many seconds each step of a check against the oracle took, 0 if not measured.
type CheckTime struct {
	Filling   float64 `json:"filling"`   // filling outputs, writing inputs
	Running   float64 `json:"running"`   // running the kernels once
	Reading   float64 `json:"reading"`   // reading outputs
	Comparing float64 `json:"comparing"` // comparing with the oracle
}

// Plus returns the sum of t and o.
func (t CheckTime) Plus(o CheckTime) CheckTime {
	return CheckTime{t.Filling + o.Filling, t.Running + o.Running, t.Reading + o.Reading, t.Comparing + o.Comparing}
}
