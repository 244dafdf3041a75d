package cpu

// fault is an error that tests inject, to see that the checks notice it. It is not exported, so that no
// other package can break a backend.
type fault string

const (
	noFault   fault = ""
	dropToken fault = "drop-token" // rank 0 never sends its first token
	swapRows  fault = "swap-rows"  // rank 0 exchanges the contents of two rows
	earlyRead fault = "early-read" // ranks read rows without waiting for counts
	noSignal  fault = "no-signal"  // rank 0 never signals the count of one expert
	panicking fault = "panic"      // rank 0 panics
)
