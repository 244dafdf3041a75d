package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
)

// shortFields are the fields of a Result that decoder.field has no case for,
// by their JSON names.
var shortFields = []struct {
	name  string
	parse func([]byte, *Result) error
}{
	{"schema", func(b []byte, r *Result) error { return parseInt(b, &r.Schema) }},
	{"seq", func(b []byte, r *Result) error { return parseInt(b, &r.Seq) }},
	{"time", func(b []byte, r *Result) error { return r.Time.UnmarshalJSON(b) }},
	{"routing", func(b []byte, r *Result) error { return parseWord(b, &r.Routing) }},
	{"seed", func(b []byte, r *Result) error { return json.Unmarshal(b, &r.Seed) }},
	{"role", func(b []byte, r *Result) error { return parseWord(b, &r.Role) }},
	{"stage", func(b []byte, r *Result) error { return parseWord(b, &r.Stage) }},
	{"block", func(b []byte, r *Result) error { return parseInt(b, &r.Block) }},
	{"status", func(b []byte, r *Result) error { return parseWord(b, &r.Status) }},
	{"reason", func(b []byte, r *Result) error { return parseWord(b, &r.Reason) }},
	{"clock", func(b []byte, r *Result) error { return parseWord(b, &r.Clock) }},
	{"fold", func(b []byte, r *Result) error { return parseInt(b, &r.Fold) }},
	{"round0", func(b []byte, r *Result) error { return parseInt(b, &r.Round0) }},
	{"mhz", func(b []byte, r *Result) error { return json.Unmarshal(b, &r.MHz) }},
	{"max_err", func(b []byte, r *Result) error { return parseFloat(b, &r.MaxErr) }},
	{"checked", func(b []byte, r *Result) error { return parseInt(b, &r.Checked) }},
	{"wall", func(b []byte, r *Result) error { return parseFloat(b, &r.Wall) }},
	{"end", func(b []byte, r *Result) error { return json.Unmarshal(b, &r.End) }},
	{"warnings", func(b []byte, r *Result) error { return json.Unmarshal(b, &r.Warnings) }},
}

func parseInt(b []byte, n *int) error {
	v, err := strconv.Atoi(string(bytes.TrimSpace(b)))
	*n = v
	return err
}

func parseFloat(b []byte, x *float64) error {
	v, err := strconv.ParseFloat(string(bytes.TrimSpace(b)), 64)
	if err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
		err = errors.New("not finite")
	}
	*x = v
	return err
}

// parseWord reads a string; those without an escape skip encoding/json.
func parseWord[T ~string](b []byte, s *T) error {
	if n := len(b); n >= 2 && b[0] == '"' && b[n-1] == '"' && plainASCII(b[1:n-1]) {
		*s = T(b[1 : n-1])
		return nil
	}
	return json.Unmarshal(b, s)
}

func plainASCII(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
