package ep

// RunTime is where the time of runs went, in seconds of the host. All are 0 where a
// backend does not say.
type RunTime struct {
	Graphs float64 `json:"graphs"` // making CUDA graphs
	Rounds float64 `json:"rounds"` // from the first launch to the last reading, warm-up included
	Clocks float64 `json:"clocks"` // asking GPUs for their clocks
}

// Plus is the sum of two.
func (t RunTime) Plus(o RunTime) RunTime {
	return RunTime{t.Graphs + o.Graphs, t.Rounds + o.Rounds, t.Clocks + o.Clocks}
}

// CheckTime is where the time of comparisons went, in seconds of the host. All are 0
// where a backend does not say.
type CheckTime struct {
	Filling   float64 `json:"filling"`   // poisoning outputs, bringing inputs
	Running   float64 `json:"running"`   // the kernels, once
	Reading   float64 `json:"reading"`   // what they left
	Comparing float64 `json:"comparing"` // that with the oracle
}

// Plus is the sum of two.
func (t CheckTime) Plus(o CheckTime) CheckTime {
	return CheckTime{t.Filling + o.Filling, t.Running + o.Running, t.Reading + o.Reading, t.Comparing + o.Comparing}
}
