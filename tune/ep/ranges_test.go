package ep

import (
	"slices"
	"testing"
)

func TestParseInts(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []int
	}{
		{"8", []int{8}},
		{"8,1,8", []int{1, 8}},
		{"1:4", []int{1, 2, 3, 4}},
		{"8:132:62", []int{8, 70, 132}},
		{"1:64:x4,3", []int{1, 3, 4, 16, 64}},
		{"0:0", []int{0}},
	} {
		got, err := ParseInts(c.in)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("ParseInts(%q) = %v, %v, want %v", c.in, got, err, c.want)
		}
	}
	for _, in := range []string{"1:100000", "1:50000,50001:100000", "1:3:x100000"} {
		if _, err := ParseInts(in); err != nil {
			t.Errorf("%s: %v", in, err)
		}
	}
	for _, in := range []string{"1:100001", "1:50000,50001:100001", "1:8:1:", "1:8:x", "", "a", "1:", "4:1", "1:8:0", "0:8:x2", "1:8:x1", "1:2:3:4", "0:9999999", "99999999999999999999"} {
		if got, err := ParseInts(in); err == nil {
			t.Errorf("ParseInts(%q) = %v, want an error", in, got)
		}
	}
}
