package ep

// RunTime holds the parts of the time that runs took, in seconds of the host. All fields
// are 0 if a backend does not measure them.
type RunTime struct {
	Graphs float64 `json:"graphs"` // making CUDA graphs
	Rounds float64 `json:"rounds"` // from the first launch to the last reading, warm-up included
	Clocks float64 `json:"clocks"` // reading the GPUs' clock rates
}

// Plus returns the sum of t and o.
func (t RunTime) Plus(o RunTime) RunTime {
	return RunTime{t.Graphs + o.Graphs, t.Rounds + o.Rounds, t.Clocks + o.Clocks}
}

// CheckTime holds the parts of the time that comparisons took, in seconds of the host. All
// fields are 0 if a backend does not measure them.
type CheckTime struct {
	Filling   float64 `json:"filling"`   // poisoning outputs and writing inputs
	Running   float64 `json:"running"`   // running the kernels once
	Reading   float64 `json:"reading"`   // reading their outputs
	Comparing float64 `json:"comparing"` // comparing outputs with the oracle
}

// Plus returns the sum of t and o.
func (t CheckTime) Plus(o CheckTime) CheckTime {
	return CheckTime{t.Filling + o.Filling, t.Running + o.Running, t.Reading + o.Reading, t.Comparing + o.Comparing}
}
