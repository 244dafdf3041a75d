//go:build race

package plan

// raceEnabled lifts time bounds: the race detector slows everything down.
const raceEnabled = true
