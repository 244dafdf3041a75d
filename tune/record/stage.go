package record

// Stage is the part of a run in which a block of rounds was measured.
type Stage string

// The stages of a search, in the order they happen.
const (
	StageAA         Stage = "aa"         // the default against itself
	StageRequired   Stage = "required"   // the required candidates alone, where launch parameters cannot matter
	StageScreen     Stage = "screen"     // many candidates, a few rounds each
	StageHeat1      Stage = "heat1"      // the best of the screen
	StageHeat2      Stage = "heat2"      // the best of the first heat
	StageStart      Stage = "start"      // where a walk begins
	StageAxis       Stage = "axis"       // all values of one parameter
	StageRestart    Stage = "restart"    // a random point to walk from
	StageClimb      Stage = "climb"      // the neighbours of a point
	StageJump       Stage = "jump"       // a random point near the best
	StageGeneration Stage = "generation" // children of a genetic search
	StageFinals     Stage = "finals"     // the best candidates on fresh rounds: the challenger is chosen from these
	StageRetry      Stage = "retry"      // failed candidates that get another chance, beside the finalists
	StageRecheck    Stage = "recheck"    // comparison with the oracle after timing
	StageConfirm    Stage = "confirm"    // the challenger against the default on fresh rounds: times and gains come from these
	StageCross      Stage = "cross"      // the winners of other routings, for the regret matrix
	StageRefine     Stage = "refine"     // progress only: token counts between those asked for; its rounds are of stage cross
)

// The stages of commands that do not search.
const (
	StageBench  Stage = "bench"  // one config against the default
	StageAB     Stage = "ab"     // two configs side by side
	StageVerify Stage = "verify" // a row of a table measured again
	StageImport Stage = "import" // measured by another tool
)
