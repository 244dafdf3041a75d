package ep

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// idAlphabet has no letters that look like digits, and no u, so that few words
// are spelled like an id.
const idAlphabet = "0123456789abcdefghjkmnpqrstvwxyz"

var idEncoding = base32.NewEncoding(idAlphabet).WithPadding(base32.NoPadding)

// idLength is how many characters of an id are printed. Four are a million
// ids: of the 60,000 configs of a large space one in twenty shares its id with
// another, of the configs of one run hardly any. Longer ids tell these apart.
const idLength = 4

// ID is a short name of a config: the first characters of a hash of its Key.
// The id of a pair is that of both halves, joined by "+". The zero
// Config is "default".
func (c Config) ID() string {
	if c.IsDefault() {
		return c.Key()
	}
	return c.id(idLength)
}

// LongID is the id with twice the characters, for configs that share the short
// one.
func (c Config) LongID() string { return c.id(2 * idLength) }

func (c Config) id(length int) string {
	if dispatch, combine, err := Split(c); err == nil {
		return dispatch.id(length) + "+" + combine.id(length)
	}
	return c.hash()[:length]
}

func (c Config) hash() string {
	sum := sha256.Sum256([]byte(c.Key()))
	return idEncoding.EncodeToString(sum[:16])
}

// HasID reports whether id, as printed or with more characters of the hash,
// names c.
func (c Config) HasID(id string) bool {
	if dispatch, combine, err := Split(c); err == nil {
		d, k, ok := strings.Cut(id, "+")
		return ok && dispatch.HasID(d) && combine.HasID(k)
	}
	return IsID(id) && strings.HasPrefix(c.hash(), id)
}

// IsID reports whether s is spelled like an id.
func IsID(s string) bool {
	for part := range strings.SplitSeq(s, "+") {
		if len(part) < idLength || len(part) > 26 || strings.Trim(part, idAlphabet) != "" {
			return false
		}
	}
	return true
}
