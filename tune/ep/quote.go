package ep

import "strings"

// Quote returns a word as a POSIX shell reads it: as it is where that is safe, else in single
// quotes. Commands that people are told to type are made of such words.
func Quote(word string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"
	if word != "" && strings.Trim(word, safe) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
