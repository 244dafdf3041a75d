package peers

import (
	"bytes"
	"regexp"
)

// launcherPrefixes match the texts that programs put before log lines. mpirun --tag-output puts "[1,0]<stdout>:", CI
// systems put the time, and srun --label puts "0: ".
var launcherPrefixes = []*regexp.Regexp{
	regexp.MustCompile(`^\[\d+,\d+\]<std(?:out|err|diag)>:\s?`),
	regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z\s`),
	regexp.MustCompile(`^\s*\d+:\s`),
}

const sampledLines = 1000

// withoutPrefixes removes a launcher's prefix from all lines, if most lines have it.
func withoutPrefixes(data []byte) []byte {
	for _, prefix := range launcherPrefixes {
		if !mostLinesHave(data, prefix) {
			continue
		}
		out := make([]byte, 0, len(data))
		for line := range bytes.Lines(data) {
			out = append(out, line[len(prefix.Find(line)):]...)
		}
		data = out
	}
	return data
}

func mostLinesHave(data []byte, prefix *regexp.Regexp) bool {
	with, all := 0, 0
	for line := range bytes.Lines(data) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if prefix.Match(line) {
			with++
		}
		if all++; all == sampledLines {
			break
		}
	}
	return 2*with > all
}
