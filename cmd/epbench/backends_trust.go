package main

import (
	"strings"

	"github.com/spf13/pflag"
)

// bindTrust registers --trust-command. Commands have this flag if they start the backend that a
// run directory names.
func bindTrust(s *pflag.FlagSet, trust *bool) {
	s.BoolVar(trust, "trust-command", false, "allow epbench to start the exec: or launch: command that the run directory records; without this flag it starts only a command that you give with --backend")
}

// checkTrust returns an error if the backend recorded in a run directory would start a command line and
// the user did not agree to it. The user must agree, by --trust-command or by giving the same command
// with --backend, because another person may have written the directory. given is the value of --backend,
// "" if the flag is not set.
func checkTrust(dir, recorded, given string, trust bool) error {
	runs := strings.HasPrefix(recorded, "exec:") || strings.HasPrefix(recorded, "launch:")
	if !runs || trust || given == recorded {
		return nil
	}
	return usagef("%s: its run.json would start the command %.300q on this host; give --trust-command if you trust it", dir, recorded)
}
