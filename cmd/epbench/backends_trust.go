package main

import (
	"strings"

	"github.com/spf13/pflag"
)

func bindTrust(s *pflag.FlagSet, trust *bool) {
	s.BoolVar(trust, "trust-command", false, "allow epbench to start the exec: or launch: command that the run directory records; without this flag it starts only a command that you give with --backend")
}

// checkTrust refuses a recorded command without consent: another person may have written the run. Consent is `trust`,
// or the same command in `given`.
func checkTrust(dir, recorded, given string, trust bool) error {
	runs := strings.HasPrefix(recorded, "exec:") || strings.HasPrefix(recorded, "launch:")
	if !runs || trust || given == recorded {
		return nil
	}
	return usagef("%s: its run.json would start the command %.300q on this host; give --trust-command if you trust it", dir, recorded)
}
