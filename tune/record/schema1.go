package record

import "bytes"

// words1 spells what runs of schema 1 called results, and the class any, as they
// are called now.
func words1(b []byte) []byte {
	for _, w := range [][2]string{
		{`"results":"any"`, `"precision":"reduced"`}, {`"results": "any"`, `"precision": "reduced"`},
		{` results=any"`, ` precision=reduced"`}, {`"class": "any"`, `"class": "all"`},
	} {
		b = bytes.ReplaceAll(b, []byte(w[0]), []byte(w[1]))
	}
	return b
}
