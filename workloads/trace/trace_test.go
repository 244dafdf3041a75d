package trace

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/epbench/epbench/tune/testfile"
)

// golden holds files that make.py wrote with NumPy or in recorders' formats.
const golden = "../../testdata/traces/"

func readAll(t testing.TB, path string, o Options) (ids []int32, weights []float32, err error) {
	t.Helper()
	r, err := Open(path, o)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	buf, ws := make([]int32, 7*r.TopK), []float32(nil)
	if r.Weights {
		ws = make([]float32, len(buf))
	}
	for {
		n, err := r.Read(buf, ws)
		ids = append(ids, buf[:n*r.TopK]...)
		if r.Weights {
			weights = append(weights, ws[:n*r.TopK]...)
		}
		if err == io.EOF {
			return ids, weights, nil
		}
		if err != nil {
			return ids, weights, err
		}
	}
}

var noLayer = Options{Layer: -1}

func TestNumPyFiles(t *testing.T) {
	want, _, err := readAll(t, golden+"ids_i4.npy", noLayer)
	if err != nil || len(want) != 1200 || !reflect.DeepEqual(want[:4], []int32{6, 3, 0, 4}) {
		t.Fatalf("%d ids, the first are %v, error %v", len(want), want[:4], err)
	}
	for _, f := range []string{"ids_be_i8.npy", "ids_u2_v2.npy", "ids_weights.npz"} {
		got, weights, err := readAll(t, golden+f, noLayer)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %d ids, %v", f, len(got), err)
		}
		if f == "ids_weights.npz" && (len(weights) != 1200 || !slices.IsSortedFunc(weights[:4], func(a, b float32) int { return int(1e6 * (b - a)) })) {
			t.Errorf("%s: weights %v", f, weights[:min(4, len(weights))])
		}
	}
}

func TestRecorderFiles(t *testing.T) {
	want, err := scan(golden+"sglang_counts.csv", Options{Layer: 2})
	if err != nil || want.Kind != Counts || want.Counts[0] == 0 {
		t.Fatalf("%+v, %v", want, err)
	}
	for _, f := range []string{"sglang_stat.pt", "sglang_per_pass.pt", "moe_load_*.npy"} {
		got, err := scan(golden+f, Options{Layer: 2})
		if err != nil || !slices.Equal(got.Counts, want.Counts) {
			t.Errorf("%s: %v, %v, want %v", f, got.Counts, err, want.Counts)
		}
	}
	if got, err := scan(golden+"sglang_counts.json", Options{Layer: 1}); err != nil || len(got.Counts) != 16 {
		t.Errorf("sglang_counts.json: %+v, %v", got, err)
	}
	for f, rows := range map[string]int64{"sglang_per_token.pt": 28, "vllm_routed_experts.npz": 50} {
		for layer := range 3 {
			got, err := scan(golden+f, Options{Layer: layer})
			if err != nil || got.Kind != IDs || got.Rows != rows || got.TopK != 4 {
				t.Errorf("%s layer %d: %+v, %v", f, layer, got, err)
			}
		}
	}
}

func scan(path string, o Options) (Summary, error) {
	r, err := OpenAll([]string{path}, o)
	if err != nil {
		return Summary{}, err
	}
	defer r.Close()
	return r.Scan(nil)
}

func TestLayerAxes(t *testing.T) {
	const layers, tokens, k = 3, 5, 2
	id := func(l, n, j int) uint32 { return uint32(100*l + 10*n + j) }
	first, last := "", ""
	for l := range layers {
		for n := range tokens {
			for j := range k {
				first += string(binary.LittleEndian.AppendUint32(nil, id(l, n, j)))
			}
		}
	}
	for n := range tokens {
		for l := range layers {
			for j := range k {
				last += string(binary.LittleEndian.AppendUint32(nil, id(l, n, j)))
			}
		}
	}
	dir := t.TempDir()
	a := write(t, dir, "a.npy", npy("<i4", "3, 5, 2")+first)
	b := write(t, dir, "b.npy", npy("<i4", "5, 3, 2")+last)
	for l := range layers {
		x, _, err := readAll(t, a, Options{Layer: l, Axes: []Axis{Layers, Tokens, TopK}})
		y, _, err2 := readAll(t, b, Options{Layer: l, Axes: []Axis{Tokens, Layers, TopK}})
		if err != nil || err2 != nil || !slices.Equal(x, y) || x[3] != int32(id(l, 1, 1)) {
			t.Errorf("layer %d: one file gives %v (%v), the other %v (%v)", l, x, err, y, err2)
		}
	}
}

func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	testfile.Write(t, path, text)
	return path
}

func npy(descr, shape string) string {
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }\n", descr, shape)
	return "\x93NUMPY\x01\x00" + string(binary.LittleEndian.AppendUint16(nil, uint16(len(dict)))) + dict
}

func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 32).Draw(t, "k")
		rows := rapid.IntRange(1, 50).Draw(t, "rows")
		weighted := rapid.Bool().Draw(t, "weights")
		var ids []int32
		var ws []float32
		for range rows {
			row := rapid.SliceOfNDistinct(rapid.Int32Range(0, MaxExperts-1), k, k, rapid.ID[int32]).Draw(t, "row")
			if rapid.Bool().Draw(t, "mask") {
				row[0] = -1
			}
			ids = append(ids, row...)
			ws = append(ws, rapid.SliceOfN(rapid.Float32Range(0, 1), k, k).Draw(t, "w")...)
		}
		if !weighted {
			ws = nil
		}
		for _, ext := range []string{".npy", ".npz", ".csv", ".jsonl"} {
			path := filepath.Join(dir, "t"+ext)
			w, err := Create(path, k, weighted)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Write(ids, ws); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			got, gotW, err := readAllRapid(path)
			if err != nil || !slices.Equal(got, ids) || ext != ".npy" && !slices.Equal(gotW, ws) {
				t.Fatalf("%s: %v", ext, err)
			}
		}
	})
	if left, _ := filepath.Glob(filepath.Join(dir, ".epbench-*")); left != nil {
		t.Errorf("temporary files left: %v", left)
	}
}

func readAllRapid(path string) ([]int32, []float32, error) {
	return readAll(&testing.T{}, path, noLayer)
}

func TestCountsRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.csv")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []int64{3, 0, 9, 1 << 40, 5}
	if err := WriteCounts(f, want); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if got, err := scan(path, noLayer); err != nil || !slices.Equal(got.Counts, want) {
		t.Errorf("%v, %v", got.Counts, err)
	}
}

// TestScanStreams: scanning a file of 64 MiB allocates less than 16 MiB.
func TestScanStreams(t *testing.T) {
	path := filepath.Join(t.TempDir(), "big.npy")
	big(t, path, 1<<21)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s, err := scan(path, noLayer)
	runtime.ReadMemStats(&after)
	if err != nil || s.Rows != 1<<21 || s.Counts[0] != 1<<16 {
		t.Fatalf("%d rows, %v", s.Rows, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
		t.Errorf("scanning 64 MiB allocated %d bytes", used)
	}
}

func big(t testing.TB, path string, rows int) {
	t.Helper()
	w, err := Create(path, 8, false)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]int32, 8*4096)
	for i := range ids {
		ids[i] = int32((i/8*5 + i%8*31) % 256)
	}
	for range rows / 4096 {
		if err := w.Write(ids, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkScan(b *testing.B) {
	path := filepath.Join(b.TempDir(), "big.npy")
	big(b, path, 1<<22)
	b.SetBytes(1 << 27)
	for b.Loop() {
		if _, err := scan(path, noLayer); err != nil {
			b.Fatal(err)
		}
	}
}

func TestTruncatedFiles(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"ids_i4.npy", "ids_weights.npz", "vllm_routed_experts.npz", "sglang_stat.pt", "sglang_per_token.pt", "sglang_counts.json"} {
		whole := testfile.Read(t, golden+f)
		for cut := 0; cut < len(whole); cut += max(1, len(whole)/37) {
			path := write(t, dir, f, string(whole[:cut]))
			if _, err := scan(path, Options{Layer: 0}); err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), f) {
				t.Errorf("%s cut to %d bytes: %v", f, cut, err)
			}
		}
	}
}

func TestCSVSpellings(t *testing.T) {
	path := write(t, t.TempDir(), "q.csv", "\"e0\",\"e1\",\"w0\",\"w1\"\r\n\"3\", 5,0.75,\"0.25\"\r\n\r\n1,2,1,0\r\n")
	ids, ws, err := readAll(t, path, noLayer)
	if err != nil || !slices.Equal(ids, []int32{3, 5, 1, 2}) || !slices.Equal(ws, []float32{0.75, 0.25, 1, 0}) {
		t.Errorf("%v, %v, %v", ids, ws, err)
	}
}

func TestHalf(t *testing.T) {
	for h := range 1 << 16 {
		exp, frac := h>>10&31, float64(h&1023)
		want := math.Ldexp(1024+frac, exp-25)
		switch {
		case exp == 0:
			want = math.Ldexp(frac, -24)
		case exp == 31 && frac == 0:
			want = math.Inf(1)
		case exp == 31:
			want = math.NaN()
		}
		if h>>15 == 1 {
			want = -want
		}
		if got := half(uint16(h)); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Fatalf("%#x: %v, want %v", h, got, want)
		}
	}
}

// TestWeightsFollowIDs reads weights with the axes of vLLM's routed_experts.
func TestWeightsFollowIDs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.npz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for name, text := range map[string]string{ // [2 tokens, 2 layers, top-2]
		"routed_experts.npy": npy("|u1", "2, 2, 2") + "\x01\x02\x03\x04\x05\x06\x07\x08",
		"topk_weights.npy":   npy("|u1", "2, 2, 2") + "\x11\x12\x13\x14\x15\x16\x17\x18",
	} {
		m, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(m, text)
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	ids, ws, err := readAll(t, path, Options{Layer: 1})
	if err != nil || !slices.Equal(ids, []int32{3, 4, 7, 8}) || !slices.Equal(ws, []float32{0x13, 0x14, 0x17, 0x18}) {
		t.Errorf("%v, %v, %v", ids, ws, err)
	}
}

func TestReplicasAreOneExpert(t *testing.T) {
	const layer = 1
	replicas := append([]int{}, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 0, 0, 0, 0, 1, 2, 3)
	want := make([]int64, 16)
	for p := range 24 {
		want[replicas[(p+24-layer)%24]] += int64(2*(p+layer) + 10)
	}
	s, err := scan(golden+"sglang_redundant.pt", Options{Layer: layer})
	if err != nil || !slices.Equal(s.Counts, want) {
		t.Errorf("%v, %v, want %v", s.Counts, err, want)
	}
}

func TestLogicalIDs(t *testing.T) {
	rows := [][]int32{{0, 4, -1}, {5, 1, 2}}
	read := func(ids []int32, _ []float32) (int, error) {
		copy(ids, slices.Concat(rows...))
		return 2, io.EOF
	}
	ids := make([]int32, 9)
	n, err := foldIDs(read, 3, "map", []int32{0, 1, 2, 3, 7, 9})(ids, nil)
	if n != 2 || err != io.EOF || !slices.Equal(ids[:6], []int32{0, 7, -1, 9, 1, 2}) {
		t.Errorf("%d rows with ids %v, error %v", n, ids, err)
	}
	if _, err := foldIDs(read, 3, "map", []int32{0, 1, 2})(ids, nil); err == nil || !strings.Contains(err.Error(), "physical expert 4 is not among the 3 physical experts of map") {
		t.Errorf("an id beyond the map: %v", err)
	}
}
