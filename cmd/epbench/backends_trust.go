package main

import (
	"strings"

	"github.com/spf13/pflag"
)

func bindTrust(s *pflag.FlagSet, trust *bool) {
	s.BoolVar(trust, "trust-command", false, "allow epbench to start the exec: or launch: command that the run directory records; without this flag it starts only a command that you give with --backend")
}

// checkTrust returns an error if epbench must not start a recorded command: the run may come from another person. It
// may start the command if `trust` is set, or if the user gave the same command with --backend (`given`).
func checkTrust(dir, recorded, given string, trust bool) error {
	runs := strings.HasPrefix(recorded, "exec:") || strings.HasPrefix(recorded, "launch:")
	if !runs || trust || given == recorded {
		return nil
	}
	return usagef("%s: its run.json would start the command %.300q on this host; give --trust-command if you trust it", dir, recorded)
}
