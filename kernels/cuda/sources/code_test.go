package sources

import (
	"io/fs"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"

	"github.com/epbench/epbench/native"
)

// pieces matches one piece of C. It is the specification of the function piece.
var pieces = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'` +
	`|#[ \t]*define[ \t]+\w+\(?|\w+|\\\r?\n|\n|\s` +
	`|<<=|>>=|\.\.\.|->|::|##|\+\+|--|<<|>>|&&|\|\||[-+*/%&|^<>=!]=|.`)

func samePieces(t *testing.T, name, text string) {
	t.Helper()
	rest := text
	for _, want := range pieces.FindAllString(text, -1) {
		if got := rest[:piece(rest)]; got != want {
			t.Fatalf("%s: after %d of %d bytes the piece is %q, want %q", name, len(text)-len(rest), len(text), got, want)
		}
		rest = rest[len(want):]
	}
	if rest != "" {
		t.Fatalf("%s: %q has no piece", name, rest)
	}
}

// TestPieces compares the pieces of a device source and of random texts with the specification.
func TestPieces(t *testing.T) {
	text, err := Read("common/ptx.cuh")
	if err != nil {
		t.Fatal(err)
	}
	samePieces(t, "common/ptx.cuh", text)
	parts := []string{"/", "*", "/*", "*/", "//", "\"", "'", "\\", "\n", "\r", "\r\n", " ", "\t", "\v", "\f", "#", "define", "# define", "F",
		"(", ")", "x1", "_", "<", ">", "=", ".", "-", "+", ":", "&", "|", "^", "%", "!", "~", "é", "\u00a0", "\xff", "\\\""}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		text := ""
		for range 30 {
			text += parts[rng.IntN(len(parts))]
		}
		samePieces(t, strconv.Quote(text), text)
	}
}

// TestPiecesOfAllSources is TestPieces for all device sources.
func TestPiecesOfAllSources(t *testing.T) {
	if testing.Short() {
		t.Skip("the specification takes a second for all sources; left out with -short")
	}
	err := fs.WalkDir(native.Sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(native.Sources, path)
		samePieces(t, path, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
