package workloads

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/testfile"
)

func digest(w *Workload) string {
	h := sha256.New()
	for _, rt := range w.Ranks {
		binary.Write(h, binary.LittleEndian, int64(rt.Tokens))
		binary.Write(h, binary.LittleEndian, rt.Experts)
		for _, v := range rt.Weights {
			binary.Write(h, binary.LittleEndian, math.Float32bits(v))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// TestGolden pins the bytes of every distribution on all architectures.
func TestGolden(t *testing.T) {
	var b strings.Builder
	for _, spec := range append(append([]string{}, plainSpecs...), solvedSpecs...) {
		w := mustNew(t, spec, v3(600), 42)
		fmt.Fprintf(&b, "%s %s\n", digest(w), spec)
	}
	testfile.Golden(t, "testdata/digests.txt", []byte(b.String()))
}

// fused matches the functions that may fuse operations, because no draw depends on them.
var fused = regexp.MustCompile(`workloads\.(fitter\.|FitCounts|minimum|round|MeasureCounts|Stats\.|\(\*Workload\)\.Stats)`)

// TestNoFusedOperations: arm64 must not fuse multiply and add. The fused instruction rounds once, and amd64
// rounds twice.
func TestNoFusedOperations(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles for another architecture; left out with -short")
	}
	cmd := exec.Command("go", "build", "-gcflags=-S", ".")
	cmd.Env = append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%.2000s", err, out)
	}
	inside, functions := "", 0
	for line := range strings.Lines(string(out)) {
		if name, _, ok := strings.Cut(line, " STEXT"); ok {
			inside = name
			functions++
		}
		if regexp.MustCompile(`\tFN?M(ADD|SUB)[SD]\t`).MatchString(line) && !fused.MatchString(inside) {
			t.Errorf("%s: %s", inside, strings.TrimSpace(line))
		}
	}
	if functions < 100 {
		t.Fatalf("only %d functions disassembled", functions)
	}
}
