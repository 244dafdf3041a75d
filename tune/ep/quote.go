package ep

import "strings"

// Quote spells a word so that a POSIX shell reads it back as the same word. A word of safe
// characters stays as it is. Any other word gets single quotes. Use Quote in commands that
// are printed for people to type.
func Quote(word string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"
	if word != "" && strings.Trim(word, safe) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
