package main

import (
	"strings"

	"github.com/spf13/pflag"
)

// bindTrust registers --trust-command for a command that starts the backend which a run
// directory names.
func bindTrust(s *pflag.FlagSet, trust *bool) {
	s.BoolVar(trust, "trust-command", false, "start the exec: or launch: command that the run directory holds; without it only a command that was given here starts")
}

// checkTrust refuses to start a command that stands in a run directory: whoever wrote the
// directory chose it. given is the --backend of this command line, "" if it has none.
func checkTrust(dir, recorded, given string, trust bool) error {
	runs := strings.HasPrefix(recorded, "exec:") || strings.HasPrefix(recorded, "launch:")
	if !runs || trust || given == recorded {
		return nil
	}
	return usagef("%s: its run.json would start %.300q on this host; give --trust-command if that command is yours", dir, recorded)
}
