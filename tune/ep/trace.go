package ep

import "strings"

// DigestDigits is the length of the digest in trace:FILE@DIGEST. The digest has the first hex digits of the file's
// SHA-256.
const DigestDigits = 12

// SplitDigest splits FILE@DIGEST; digest may be "".
func SplitDigest(s string) (file, digest string) {
	at := len(s) - DigestDigits - 1
	if at < 1 || s[at] != '@' || strings.Trim(s[at+1:], "0123456789abcdef") != "" {
		return s, ""
	}
	return s[:at], s[at+1:]
}

// RoutingLabel returns a spec without its trace's digest.
func RoutingLabel(spec string) string {
	return editTrace(spec, func(file, _ string) string { return file })
}

// RoutingContent returns a spec without its trace's file name. The name stays if there is no digest.
func RoutingContent(spec string) string {
	return editTrace(spec, func(file, digest string) string {
		if digest == "" {
			return file
		}
		return "@" + digest
	})
}

// RoutingDigest returns the digest of a spec's trace, or "".
func RoutingDigest(spec string) (digest string) {
	editTrace(spec, func(_, d string) string { digest = d; return "" })
	return digest
}

func editTrace(spec string, edit func(file, digest string) string) string {
	base, mods, modified := strings.Cut(spec, "+")
	rest, ok := strings.CutPrefix(base, "trace:")
	if !ok {
		return spec
	}
	out := "trace:" + edit(SplitDigest(rest))
	if modified {
		out += "+" + mods
	}
	return out
}
