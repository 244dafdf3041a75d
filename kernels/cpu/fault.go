package cpu

// fault is one way in which tests break the backend on purpose, to see that it is
// noticed. It is not exported: neither the command line nor another package can
// break a backend.
type fault string

// The faults.
const (
	noFault   fault = ""
	dropToken fault = "drop-token" // rank 0 never sends its first token
	swapRows  fault = "swap-rows"  // rank 0 exchanges the contents of two rows
	earlyRead fault = "early-read" // nobody waits for counts before reading
	noSignal  fault = "no-signal"  // rank 0 never signals its last expert
	panicking fault = "panic"      // rank 0 runs into a programming error
)
