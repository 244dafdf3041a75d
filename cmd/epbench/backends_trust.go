package main

import (
	"strings"

	"github.com/spf13/pflag"
)

func bindTrust(s *pflag.FlagSet, trust *bool) {
	s.BoolVar(trust, "trust-command", false, "allow epbench to start the exec: or launch: command that the run directory records; without this flag it starts only a command that you give with --backend")
}

// checkTrust returns an error if a recorded backend would start a command line without the user's consent. Another
// person may have written the run. Consent is --trust-command, or the same command as --backend (given).
func checkTrust(dir, recorded, given string, trust bool) error {
	runs := strings.HasPrefix(recorded, "exec:") || strings.HasPrefix(recorded, "launch:")
	if !runs || trust || given == recorded {
		return nil
	}
	return usagef("%s: its run.json would start the command %.300q on this host; give --trust-command if you trust it", dir, recorded)
}
