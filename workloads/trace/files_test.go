package trace

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/bounded"
	"github.com/epbench/epbench/tune/testfile"
)

func copyFile(t *testing.T, from, dir, name string) string {
	t.Helper()
	text := testfile.Read(t, golden+from)
	return write(t, dir, name, string(text))
}

// TestPerTokenDumps: dumps are read in the order of ranks, not of names.
func TestPerTokenDumps(t *testing.T) {
	dump := func(rank int) string { return fmt.Sprintf("expert_distribution_recorder_1700000000.5_%d.pt", rank) }
	whole, err := scan(golden+"expert_distribution_recorder_*.pt", Options{Layer: 1})
	if err != nil || whole.Kind != IDs || whole.Rows != 2*16 || whole.TopK != 8 || len(whole.Counts) > 16 {
		t.Fatalf("%+v, %v", whole, err)
	}
	if whole.Masked != 4*whole.Rows {
		t.Errorf("%d selections of -1, want 4 for each row: the dump pads top-4 to 8", whole.Masked)
	}
	dir := t.TempDir()
	copyFile(t, dump(0), dir, "z.pt")
	only := copyFile(t, dump(1), dir, "a.pt")
	r, err := OpenAll([]string{dir}, Options{Layer: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	swapped := make([]int32, 8*32)
	if n, err := r.Read(swapped, nil); n < 11 || err != nil {
		t.Fatal(n, err)
	}
	first, _, err := readAll(t, golden+dump(0), Options{Layer: 1})
	if err != nil || !slices.Equal(first[:8*11], swapped[:8*11]) {
		t.Errorf("z.pt holds rank 0 and must come first: %v, %v", swapped[:8], first[:8])
	}
	alone, err := OpenAll([]string{only}, Options{Layer: 1})
	if err != nil || !slices.Contains(alone.Notes(), "ranks 0 are missing: their tokens are not counted") {
		t.Errorf("%v, %v", alone.Notes(), err)
	}
	copyFile(t, dump(0), dir, "again.pt")
	if _, err := OpenAll([]string{dir}, Options{Layer: 1}); err == nil || !strings.Contains(err.Error(), "both hold the tokens of rank 0") {
		t.Errorf("two files of one rank: %v", err)
	}
}

func TestIDsAgreeWithCounts(t *testing.T) {
	file := golden + "expert_distribution_recorder_1700000000.5_0.pt"
	random := rand.New(rand.NewPCG(5, 6))
	noticed, tried := 0, 0
	for range 200 {
		path := changeOne(t, file, random)
		for layer := range 3 {
			if _, err := scan(path, Options{Layer: layer}); err != nil {
				noticed++
				break
			}
		}
		tried++
	}
	if noticed < tried*95/100 {
		t.Errorf("%d of %d changed figures were noticed", noticed, tried)
	}
}

// changeOne changes one number in a .pt file. It leaves maps of replicas alone, because a changed map can be valid too.
func changeOne(t *testing.T, file string, random *rand.Rand) string {
	t.Helper()
	z, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	victim := fmt.Sprintf("archive/data/%d", random.IntN(4))
	path := filepath.Join(t.TempDir(), "changed.pt")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(f)
	for _, m := range z.File {
		data, err := readMember(m, 1<<20, bounded.New(1<<20))
		if err != nil {
			t.Fatal(err)
		}
		if m.Name == victim {
			size := 4
			if victim[len(victim)-1]%2 == 1 {
				size = 8
			}
			i := random.IntN(len(data)/size) * size
			data[i] = (data[i] + 1 + byte(random.IntN(15))) % 16
			for j := 1; j < size; j++ {
				data[i+j] = 0
			}
		}
		out, err := w.Create(m.Name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestChangedCountsAreNoticed(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for file, start := range map[string]int{"moe_load_0.npy": 128, "trtllm_statistic/rank0.safetensors": 0, "sglang_counts.json": -1} {
		whole := testfile.Read(t, golden+file)
		if n := noticed(t, write(t, t.TempDir(), filepath.Base(file), string(whole))); n {
			t.Errorf("%s: an unchanged file has a note", file)
		}
		caught := 0
		for range 100 {
			if noticed(t, write(t, t.TempDir(), filepath.Base(file), changeCount(string(whole), start, random))) {
				caught++
			}
		}
		if caught < 95 {
			t.Errorf("%s: %d of 100 changed counts were noticed", file, caught)
		}
	}
}

// noticed reports whether reading a file gives an error or a note about counts.
func noticed(t *testing.T, path string) bool {
	t.Helper()
	r, err := Open(path, Options{Layer: 0})
	if err != nil && strings.Contains(err.Error(), "layers 3 to 4") {
		r, err = Open(path, Options{Layer: 3})
	}
	if err != nil {
		return true
	}
	defer r.Close()
	if _, err := r.Scan(nil); err != nil {
		return true
	}
	return slices.ContainsFunc(r.Notes(), func(n string) bool { return strings.Contains(n, "a count is wrong") })
}

// changeCount changes one int64 after the first `start` bytes. If `start` is 0, the int64 lies after the header of a
// safetensors file. If `start` is negative, the file is a text, and changeCount changes one number in it.
func changeCount(text string, start int, random *rand.Rand) string {
	if start < 0 {
		all := digits.FindAllStringIndex(text, -1)
		at := all[random.IntN(len(all))]
		return text[:at[0]] + "7" + text[at[0]:]
	}
	if start == 0 {
		start = 8 + int(text[0]) + int(text[1])<<8
	}
	b := []byte(text)
	at := start + 8*random.IntN((len(b)-start)/8)
	b[at] += byte(1 + random.IntN(100))
	return string(b)
}

// TestSteps: files of one step each are ordered by the numbers in their names.
func TestSteps(t *testing.T) {
	got, err := Expand([]string{golden + "moe_load_*.npy"})
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	dir := t.TempDir()
	for _, n := range []int{10, 9, 1} {
		copyFile(t, "moe_load_0.npy", dir, fmt.Sprintf("moe_load_%d.npy", n))
	}
	got, err = Expand([]string{dir})
	if err != nil || filepath.Base(got[1]) != "moe_load_9.npy" || filepath.Base(got[2]) != "moe_load_10.npy" {
		t.Errorf("%v, %v", got, err)
	}
	one, err := scan(golden+"moe_load_0.npy", Options{Layer: 1})
	if err != nil || len(one.Counts) != 16 {
		t.Fatal(one, err)
	}
	three, err := scan(dir, Options{Layer: 1})
	for e := range one.Counts {
		if err != nil || three.Counts[e] != 3*one.Counts[e] {
			t.Fatalf("%v, %v, one step has %v", three.Counts, err, one.Counts)
		}
	}
	// Under another name the array needs its axes.
	path := copyFile(t, "moe_load_0.npy", dir, "load.npy")
	if _, err := scan(path, Options{Layer: 1, Kind: Counts}); err == nil || !strings.Contains(err.Error(), "--axes steps,layers,experts or layers,ranks,experts") {
		t.Errorf("three axes without a name: %v", err)
	}
	named, err := scan(path, Options{Layer: 1, Kind: Counts, Axes: []Axis{Layers, Ranks, Experts}})
	if err != nil || !slices.Equal(named.Counts, one.Counts) {
		t.Errorf("%v, %v, want %v", named.Counts, err, one.Counts)
	}
	if _, err := scan(golden+"{sglang_counts.json,moe*}", firstLayer); err == nil {
		t.Error("a pattern that nothing matches was read")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	copyFile(t, "sglang_per_token.pt", dir, "x.pt")
	if _, err := scan(dir, Options{Layer: 1}); err == nil || !strings.Contains(err.Error(), "they are not one recording") {
		t.Errorf("ids together with counts: %v", err)
	}
}

var firstLayer = Options{Layer: 0}

func TestStatistic(t *testing.T) {
	s, err := scan(golden+"trtllm_statistic", Options{Layer: 3})
	if err != nil || s.Kind != Counts || len(s.Counts) != 16 {
		t.Fatalf("%+v, %v", s, err)
	}
	var sum int64
	for _, n := range s.Counts {
		sum += n
	}
	if sum != 2*2*100*4 {
		t.Errorf("%d selections; want those of two ranks, two iterations each, 100 tokens, top-4", sum)
	}
	one := func(rank string) []int64 {
		s, err := scan(golden+"trtllm_statistic/"+rank+".safetensors", Options{Layer: 3})
		if err != nil {
			t.Fatal(err)
		}
		return s.Counts
	}
	for e, a := range one("rank0") {
		if b := one("rank1")[e]; a+b != s.Counts[e] {
			t.Errorf("expert %d: %d, the ranks have %d and %d", e, s.Counts[e], a, b)
		}
	}
	if _, err := scan(golden+"trtllm_statistic", Options{Layer: -1}); err == nil || !strings.Contains(err.Error(), "layers 3 to 4 have counts; choose one") {
		t.Errorf("no layer: %v", err)
	}
	for meta, want := range map[string]string{
		`{"num_experts": 32, "num_experts_per_token": 4}`: "the file has counts of 16 experts, but num_experts in meta_info.json is 32",
		`{"num_experts": 16, "num_experts_per_token": 7}`: "are not a multiple of 7",
		`{"num_experts": 16,`:                             "meta_info.json: unexpected end",
	} {
		dir := t.TempDir()
		path := copyFile(t, "trtllm_statistic/rank1.safetensors", dir, "rank1.safetensors")
		write(t, dir, "meta_info.json", meta)
		if _, err := scan(path, Options{Layer: 3}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", meta, err, want)
		}
	}
	r, err := OpenAll([]string{golden + "trtllm_statistic/rank1.safetensors"}, Options{Layer: 3})
	if err != nil || !slices.Contains(r.Notes(), "ranks 0 are missing: their tokens are not counted") {
		t.Errorf("%v, %v", r.Notes(), err)
	}
}

func TestLogits(t *testing.T) {
	f32 := func(v ...byte) (s string) { // 0 to 127 as float32 bits of 2^(v-127)
		for _, x := range v {
			s += string([]byte{0, 0, x << 7, x >> 1})
		}
		return s
	}
	path := write(t, t.TempDir(), "l.npy", npy("<f4", "2, 5")+f32(3, 9, 9, 1, 2)+f32(1, 2, 3, 4, 5))
	ids, _, err := readAll(t, path, Options{Layer: -1, Kind: Logits, TopK: 3})
	if err != nil || !slices.Equal(ids, []int32{1, 2, 0, 4, 3, 2}) {
		t.Errorf("%v, %v", ids, err)
	}
	r, err := Open(path, Options{Layer: -1, Kind: Logits, TopK: 2})
	if err != nil || len(r.Notes()) != 1 || !strings.Contains(r.Notes()[0], "2 largest router logits of each token: a bias or expert groups") {
		t.Errorf("%v, %v", r.Notes(), err)
	}
	if _, err := Open(path, Options{Layer: -1, Kind: Logits}); err == nil || !strings.Contains(err.Error(), "give --topk, 1 to 5") {
		t.Errorf("no top-k: %v", err)
	}
	nan := write(t, t.TempDir(), "n.npy", npy("<f4", "1, 2")+f32(1)+"\xff\xff\xff\xff")
	if _, err := scan(nan, Options{Layer: -1, Kind: Logits, TopK: 1}); err == nil || !strings.Contains(err.Error(), "the logit of expert 1 is NaN") {
		t.Errorf("NaN: %v", err)
	}
}

func TestBadMember(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.npz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for _, m := range [][2]string{{"names.npy", npy("|O", "2")}, {"counts.npy", npy("|u1", "3") + "\x01\x02\x03"}} {
		w, err := z.Create(m[0])
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, m[1])
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{noLayer, {Layer: -1, Array: "counts"}} {
		if s, err := scan(path, o); err != nil || !slices.Equal(s.Counts, []int64{1, 2, 3}) {
			t.Errorf("%+v: %v, %v", o, s.Counts, err)
		}
	}
	if _, err := scan(path, Options{Layer: -1, Array: "names"}); err == nil || !strings.Contains(err.Error(), "not a plain numeric type") {
		t.Errorf("the bad member itself: %v", err)
	}
}

func TestEmptySlots(t *testing.T) {
	file := func(count int) string {
		return write(t, t.TempDir(), "v.json", fmt.Sprintf(`{"expert_load": [[[4, %d, 5]]], "physical_to_logical_map": [[0, -1, 0]]}`, count))
	}
	if s, err := scan(file(0), Options{Layer: 0}); err != nil || !slices.Equal(s.Counts, []int64{9}) {
		t.Errorf("%v, %v", s.Counts, err)
	}
	if _, err := scan(file(3), Options{Layer: 0}); err == nil || !strings.Contains(err.Error(), "physical expert 1 has 3 selections, but physical_to_logical_map gives it no logical expert") {
		t.Errorf("selections of an empty slot: %v", err)
	}
}
