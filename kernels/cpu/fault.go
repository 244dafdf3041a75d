package cpu

// fault is an error that tests inject.
type fault string

const (
	noFault   fault = ""
	dropToken fault = "drop-token"
	swapRows  fault = "swap-rows"
	earlyRead fault = "early-read" // no waiting for counts
	noSignal  fault = "no-signal"
	panicking fault = "panic"
)
