// Package drill names the ways in which a backend is broken on purpose, to test that
// checks notice. It is internal, so that neither the command line nor another module
// can break a backend.
package drill

// Fault is one way to be wrong.
type Fault string

// The faults.
const (
	None      Fault = ""
	DropToken Fault = "drop-token" // rank 0 never sends its first token
	SwapRows  Fault = "swap-rows"  // rank 0 exchanges the contents of two rows
	EarlyRead Fault = "early-read" // nobody waits for counts before reading
	NoSignal  Fault = "no-signal"  // rank 0 never signals its last expert
	Panic     Fault = "panic"      // rank 0 runs into a programming error
)
