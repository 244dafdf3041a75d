package export

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/processor"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/tune/testfile"
)

type question struct {
	key    table.Key
	tokens int
}

const (
	problems       = 250
	perProblem     = 400
	maxParityToken = 4096
)

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

func drawKey(rng *rand.Rand) table.Key {
	k := table.Key{Op: pick(rng, ep.RowOps()...), Mode: pick(rng, ep.Graph, ep.Eager),
		Ranks: pick(rng, 4, 8), Nodes: pick(rng, 1, 1, 1, 2), Hidden: pick(rng, 2048, 4096, 7168), Experts: pick(rng, 64, 256),
		TopK: pick(rng, 4, 8), Dispatch: pick(rng, ep.BF16, ep.FP8), Combine: ep.BF16,
		SharedExpert: rng.IntN(4) == 0, SkipA2A: rng.IntN(8) == 0, Routing: pick(rng, ep.Classes()...),
		Precision: pick(rng, ep.Full, ep.Full, ep.Reduced), Objective: pick(rng, ep.Alone, ep.Alone, ep.BesideProduct),
		Layout: pick(rng, ep.LayoutExpert, ep.LayoutExpert, ep.LayoutExpert128)}
	if k.Op == ep.Activation { // an activation has only this layout
		k.Layout = ep.LayoutExpert
	}
	return k
}

func drawTable(t testing.TB, rng *rand.Rand) *table.Table {
	t.Helper()
	tab := &table.Table{Schema: table.Schema, Header: table.Header{
		Tool: "test", ABI: `a"b\c??/`, Machine: ep.Machine{Backend: "cuda", Name: "*/ \" é", PCIID: "10de:2335", SMs: 132, GPUs: 8},
		Fallback: []string{"routing", "hidden", "shared_expert", "top_k"}}}
	seen := map[table.Key]bool{}
	for len(seen) < 120 {
		k := drawKey(rng)
		if seen[k] {
			continue
		}
		seen[k] = true
		at := rng.IntN(3)
		for range 1 + rng.IntN(5) {
			lo := at + pick(rng, 0, 0, 1, 17)
			hi := min(lo+pick(rng, 0, 1, 7, 40, 900), ep.MaxTokens)
			c := ep.Config{Kernel: pick(rng, "direct", "dedup")}.With("threads", ep.Value(strconv.Itoa(32*(1+rng.IntN(32)))))
			r := table.Row{Key: k, Lo: lo, Hi: hi, Config: c.With("mode", pick[ep.Value](rng, "fused", "split"))}
			switch rng.IntN(9) {
			case 0:
				r.Default, r.Config = true, ep.Config{}
			case 1:
				r.Default = true
			}
			tab.Rows = append(tab.Rows, r)
			at = hi + 1
		}
	}
	if err := tab.Seal(); err != nil {
		t.Fatal(err)
	}
	return tab
}

// drawQuestions draws problems similar to the table's keys.
func drawQuestions(rng *rand.Rand, tab *table.Table) [][]question {
	out := make([][]question, problems)
	for i := range out {
		k := pick(rng, tab.Rows...).Key
		for range rng.IntN(3) {
			other := drawKey(rng)
			switch rng.IntN(9) {
			case 0:
				k.Hidden = other.Hidden + 512*rng.IntN(3)
			case 1:
				k.TopK = other.TopK
			case 2:
				k.SharedExpert = other.SharedExpert
			case 3:
				k.Ranks = pick(rng, 2, 4, 8)
			case 4:
				k.Op = other.Op
			case 5:
				k.Dispatch = pick(rng, ep.DTypes()...)
			case 6:
				k.Experts = other.Experts
			case 7:
				k.Precision = other.Precision
			case 8:
				k.Objective = other.Objective
			}
		}
		for range perProblem {
			k.Routing = pick(rng, ep.Classes()...)
			r := pick(rng, tab.Rows...)
			out[i] = append(out[i], question{k, max(0, pick(rng, r.Lo, r.Hi, r.Lo-1, r.Hi+1, rng.IntN(64), rng.IntN(6000)))})
		}
	}
	return out
}

func asked(qs [][]question) string {
	var b strings.Builder
	for _, group := range qs {
		b.WriteString(problemWords(group[0].key) + "\n")
		for _, q := range group {
			v := q.key.Vector()
			fmt.Fprintf(&b, "%d %d\n", q.tokens, v[11])
		}
		b.WriteString("-1\n")
	}
	return b.String()
}

func problemWords(k table.Key) string {
	v := k.Vector()
	at := slices.Index(table.Fields(), "routing")
	return strings.Trim(fmt.Sprint(slices.Delete(v[:], at, at+1)), "[]")
}

func reasonIndex(r table.Reason) int {
	return slices.Index([]table.Reason{table.Exact, table.Fallback, table.Kept, table.Uncovered, table.Refused}, r)
}

// goAnswers returns package table's answers in the format of the parity programs.
func goAnswers(t *testing.T, tab *table.Table, qs [][]question) []string {
	t.Helper()
	set := table.Overlay(table.Source{Table: tab})
	rows := map[*table.Row]int{nil: -1}
	for i := range tab.Rows {
		rows[&tab.Rows[i]] = i
	}
	var out []string
	for _, group := range qs {
		p := group[0].key.Problem(maxParityToken)
		resolved := set.Resolve(table.Host{Machine: tab.Header.Machine, ABI: tab.Header.ABI}, p)
		for _, q := range group {
			a := set.Lookup(q.key, q.tokens)
			fast := resolved.Lookup(q.tokens, q.key.Routing)
			if q.tokens <= maxParityToken && (fast.Config.Key() != a.Config.Key() || fast.Reason != a.Reason || fast.Row != a.Row) {
				t.Fatalf("%v at %d: resolved %+v, direct %+v", q.key, q.tokens, fast, a)
			}
			differs := 0
			for _, f := range a.Differs {
				differs |= 1 << slices.Index(table.Fields(), f)
			}
			out = append(out, fmt.Sprintf("%s %d %d %d", a.Config.Key(), reasonIndex(a.Reason), rows[a.Row], differs))
		}
	}
	return out
}

func exported(t testing.TB, tab *table.Table) string {
	t.Helper()
	dir := t.TempDir()
	for _, e := range Exporters {
		files, err := e.Files(tab, "tuned")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			testfile.Write(t, filepath.Join(dir, f.Name), f.Data)
		}
	}
	return dir
}

func tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	return path
}

func buildC(t testing.TB, dir string) string {
	t.Helper()
	gcc := tool(t, "gcc")
	bin := filepath.Join(dir, "parity")
	cmd := exec.Command(gcc, "-std=c99", "-D_POSIX_C_SOURCE=199309L", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic",
		"-I", dir, "-o", bin, "testdata/parity.c")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

func feed(t testing.TB, input string, cmd *exec.Cmd) []string {
	t.Helper()
	cmd.Stdin = strings.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd.Path, err, stderr.Bytes())
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

func pythonCommand(t testing.TB, dir, what string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(tool(t, "python3"), "testdata/parity.py", what)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dir, "PYTHONDONTWRITEBYTECODE=1")
	return cmd
}

func compareAnswers(t *testing.T, language string, qs [][]question, want, got []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s gives %d answers to %d questions", language, len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			q := qs[i/perProblem][i%perProblem]
			t.Fatalf("%v at %d tokens: %s says %q, Go %q", q.key, q.tokens, language, got[i], want[i])
		}
	}
}

// quickProblems limits the problems that quick tests give to Python. Python is much slower than C.
const quickProblems = 50

// TestParity asks 100,000 random questions. With -short, Python answers a fifth of them.
func TestParity(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	tab := drawTable(t, rng)
	qs := drawQuestions(rng, tab)
	want := goAnswers(t, tab, qs)
	reached := map[string]int{}
	for _, w := range want {
		reached[strings.Fields(w)[1]]++
	}
	t.Logf("%d rows, %d questions, by reason %v", len(tab.Rows), len(want), reached)
	if len(want) != 100_000 || len(reached) != 5 {
		t.Errorf("%d questions reach %d of 5 reasons", len(want), len(reached))
	}
	dir := exported(t, tab)
	t.Run("c", func(t *testing.T) {
		compareAnswers(t, "C", qs, want, feed(t, asked(qs), exec.Command(buildC(t, dir), "parity")))
	})
	t.Run("python", func(t *testing.T) {
		if testing.Short() {
			qs, want = qs[:quickProblems], want[:quickProblems*perProblem]
		}
		compareAnswers(t, "Python", qs, want, feed(t, asked(qs), pythonCommand(t, dir, "parity")))
	})
}

func TestClassifyParity(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 2))
	var input strings.Builder
	var want []string
	seen := map[ep.Class]bool{}
	for range 3000 {
		ranks := pick(rng, 1, 2, 3, 4, 8)
		counts := make([]int64, ranks*pick(rng, 1, 4, 16))
		steep, scale := rng.Float64()*2, pick[int64](rng, 1, 50, 100_000)
		for i := range counts {
			counts[i] = int64(float64(rng.Int64N(scale+1)) / (1 + steep*float64(i)))
		}
		class := ep.Classify(counts, ranks)
		seen[class] = true
		want = append(want, strconv.Itoa(slices.Index(ep.Classes(), class)))
		fmt.Fprintf(&input, "%d %d %s\n", len(counts), ranks, strings.Trim(fmt.Sprint(counts), "[]"))
	}
	if len(seen) != len(ep.Classes()) {
		t.Errorf("only the classes %v are reached", seen)
	}
	dir := exported(t, drawTable(t, rng))
	for language, cmd := range map[string]func(*testing.T) *exec.Cmd{
		"C":      func(t *testing.T) *exec.Cmd { return exec.Command(buildC(t, dir), "classify") },
		"Python": func(t *testing.T) *exec.Cmd { return pythonCommand(t, dir, "classify") },
	} {
		t.Run(language, func(t *testing.T) {
			if got := feed(t, input.String(), cmd(t)); !slices.Equal(got, want) {
				t.Errorf("%s differs", language)
			}
		})
	}
}

// TestHotPath: look-ups in C and in Go take similar times.
func TestHotPath(t *testing.T) {
	if testing.Short() {
		t.Skip("timed; left out with -short")
	}
	goNs, cNs := hotPath(t, 12)
	t.Logf("hot look-up: Go %.2f ns, C (gcc -O2) %.2f ns", goNs, cNs)
	if cNs > 1.5*goNs {
		t.Errorf("C takes %.2f ns, Go %.2f", cNs, goNs)
	}
	if goNs > 5*cNs {
		t.Errorf("Go takes %.2f ns, C %.2f", goNs, cNs)
	}
}

func BenchmarkHotPath(b *testing.B) {
	for b.Loop() {
		goNs, cNs := hotPath(b, 3)
		b.ReportMetric(goNs, "go-ns/lookup")
		b.ReportMetric(cNs, "c-ns/lookup")
	}
}

// hotPath measures C and Go in turn, and returns the best times.
func hotPath(t testing.TB, turns int) (goNs, cNs float64) {
	tab := drawTable(t, rand.New(rand.NewPCG(7, 3)))
	k := tab.Rows[0].Key
	bin := buildC(t, exported(t, tab))
	problem := problemWords(k)
	r := tab.Resolve(table.Host{Machine: tab.Header.Machine, ABI: tab.Header.ABI}, k.Problem(maxParityToken))
	goNs, cNs = 1e9, 1e9
	for turn := 0; turn < turns && (turn < 3 || cNs > 1.5*goNs || goNs > 5*cNs); turn++ {
		ns, err := strconv.ParseFloat(feed(t, problem, exec.Command(bin, "bench"))[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		goNs, cNs = min(goNs, goNanoseconds(t, r)), min(cNs, ns)
	}
	return goNs, cNs
}

var (
	sink    *table.Answer
	counter int
)

// goNanoseconds returns the processor time of one look-up. Each look-up has another token count, so that the compiler
// cannot compute it once for all.
func goNanoseconds(t testing.TB, r *table.Resolved) float64 {
	const n = 10_000_000
	classes := ep.Classes()
	start := processor.Time(t)
	for i := range n {
		a := r.Lookup((i*37)&4095, classes[i%len(classes)])
		counter += len(a.Differs)
		sink = a
	}
	return float64((processor.Time(t) - start).Nanoseconds()) / n
}
