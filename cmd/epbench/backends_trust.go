package main

import (
	"strings"

	"github.com/spf13/pflag"
)

// bindTrust registers --trust-command. Commands have this flag if they start the backend that a
// run directory names.
func bindTrust(s *pflag.FlagSet, trust *bool) {
	s.BoolVar(trust, "trust-command", false, "allow to start the exec: or launch: command that the run directory records; otherwise only a command that you typed starts")
}

// checkTrust returns an error if the backend recorded in a run directory would start a command
// line. Another person may have written the directory, so the user must agree: by
// --trust-command, or by the same command in --backend. given is the value of --backend, "" if
// the flag is not set.
func checkTrust(dir, recorded, given string, trust bool) error {
	runs := strings.HasPrefix(recorded, "exec:") || strings.HasPrefix(recorded, "launch:")
	if !runs || trust || given == recorded {
		return nil
	}
	return usagef("%s: its run.json would start %.300q on this host; give --trust-command if that command is yours", dir, recorded)
}
