package ep

// Status is how a trial ended.
type Status string

const (
	OK       Status = "ok"
	Illegal  Status = "illegal"  // Check refused it
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
