package workloads

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestDigestOfAFileWrittenAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace")
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	seen := map[string]string{}
	for _, c := range []struct {
		content string
		at      time.Time
	}{{"abc", begin}, {"abd", begin.Add(time.Second)}, {"abcd", begin.Add(time.Second)}} {
		if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, c.at, c.at); err != nil {
			t.Fatal(err)
		}
		d, err := fileDigest(file)
		if err != nil || seen[d] != "" {
			t.Errorf("%s has the digest %s of %q, %v", c.content, d, seen[d], err)
		}
		seen[d] = c.content
	}
	if _, err := fileDigest(t.TempDir()); err == nil {
		t.Error("a folder has a digest")
	}
}

func TestTopFifth(t *testing.T) {
	for _, c := range []struct {
		counts []int64
		want   float64
	}{{[]int64{3, 50, 3, 3, 30, 3, 2, 2, 2, 2}, 0.8}, {[]int64{1, 6, 2, 1}, 0.6}, {[]int64{0, 0}, 0.2}} {
		if got := MeasureCounts(c.counts, 2).Top20Share; got != c.want {
			t.Errorf("%v: %v, want %v", c.counts, got, c.want)
		}
	}
}
