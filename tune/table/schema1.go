package table

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/table/internal/strictjson"
)

// words1 spells a table of schema 1 in schema 2, which has other names for some
// fields and values and always states the precision. It works on the bytes that
// epbench wrote. Types with the old names were not taken: they were twice the
// lines, for files that no program writes any more.
var words1 = strings.NewReplacer(
	`"schema": 1,`, `"schema": 2,`,
	`"relax":`, `"fallback":`,
	`"gain_lo":`, `"gain_low":`,
	`"gain_hi":`, `"gain_high":`,
	`"candidates":`, `"tried":`,
	`"routing":"any","results":"any"}`, `"routing":"all","precision":"reduced"}`,
	`"routing":"any"}`, `"routing":"all","precision":"full"}`,
	`"routing":"even"}`, `"routing":"even","precision":"full"}`,
	`"routing":"skewed"}`, `"routing":"skewed","precision":"full"}`,
	`"routing":"concentrated"}`, `"routing":"concentrated","precision":"full"}`,
	`"routing":"hot-rank"}`, `"routing":"hot-rank","precision":"full"}`,
	`"results":"any"}`, `"precision":"reduced"}`,
)

// read1 reads a table of schema 1 and gives its text in schema 2, line by line.
func read1(data []byte, t *Table) ([]byte, error) {
	text := []byte(words1.Replace(string(data)))
	err := strictjson.Unmarshal(text, t)
	if m := band1.FindStringSubmatch(t.Header.Policy); m != nil {
		t.Header.Band, _ = strconv.ParseFloat(m[1], 64) // stays 0, unknown, for what is no number
	}
	return text, err
}

// band1 finds the band in the words of a policy: schema 1 had it nowhere else.
var band1 = regexp.MustCompile(`\bband=([0-9.]+)`)

// hash1 is the id of a table of schema 1: the sha256 of its bytes with an empty id.
func hash1(data []byte, id string) string {
	sum := sha256.Sum256(bytes.Replace(data, []byte(`"`+id+`"`), []byte(`""`), 1))
	return hex.EncodeToString(sum[:])
}
