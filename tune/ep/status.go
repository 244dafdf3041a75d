package ep

// Status is how the measurement of a config ended.
type Status string

const (
	OK       Status = "ok"       // it was measured and its answer is right
	Illegal  Status = "illegal"  // the kernel's Check refused it
	NoBuild  Status = "compile"  // it does not compile
	NoLaunch Status = "launch"   // it does not load or start
	Mismatch Status = "mismatch" // its answer is wrong
	Hang     Status = "hang"     // it passed its deadline
	Crash    Status = "crash"    // it took its process down
	Unstable Status = "unstable" // its times cannot be trusted
)

// Statuses lists every status.
func Statuses() []Status {
	return []Status{OK, Illegal, NoBuild, NoLaunch, Mismatch, Hang, Crash, Unstable}
}
