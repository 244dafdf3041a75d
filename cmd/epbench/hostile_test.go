package main

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
)

// hostileInput is a file on which a careless reader uses too much memory or time.
type hostileInput struct {
	name    string
	command string // FILE stands for the path
	make    func(io.Writer)
	fine    bool // the command must succeed
}

const mega = 1 << 20

func times(n int, text string) func(io.Writer) {
	return func(w io.Writer) {
		block := strings.Repeat(text, max(1, mega/len(text)))
		for left := n * len(text); left > 0; left -= len(block) {
			io.WriteString(w, block[:min(left, len(block))])
		}
	}
}

func texts(parts ...func(io.Writer)) func(io.Writer) {
	return func(w io.Writer) {
		for _, p := range parts {
			p(w)
		}
	}
}

func says(s string) func(io.Writer) { return func(w io.Writer) { io.WriteString(w, s) } }

func zipped(member string, content func(io.Writer)) func(io.Writer) {
	return func(w io.Writer) {
		z := zip.NewWriter(w)
		m, _ := z.Create(member)
		content(m)
		z.Close()
	}
}

func gzipped(content func(io.Writer)) func(io.Writer) {
	return func(w io.Writer) {
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		content(z)
		z.Close()
	}
}

func npy(descr, shape string) func(io.Writer) {
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape)
	return says(fmt.Sprintf("\x93NUMPY\x01\x00\x76\x00%-117s\n", dict))
}

// pickled writes a PyTorch file: an archive with a pickle.
func pickled(content func(io.Writer)) func(io.Writer) {
	return zipped("a/data.pkl", texts(says("\x80\x02"), content, says(".")))
}

func parquetOf(rows, bytes int) func(io.Writer) {
	type row struct {
		Text string `parquet:"comm_backend,dict"`
	}
	return func(w io.Writer) {
		out := parquet.NewGenericWriter[row](w, parquet.Compression(&parquet.Snappy))
		one := row{strings.Repeat("x", bytes)}
		for range rows {
			_, _ = out.Write([]row{one})
		}
		out.Close()
	}
}

// footer writes a Parquet file without data.
func footer(body string) func(io.Writer) {
	return texts(says("PAR1"+body), says(string(binary.LittleEndian.AppendUint32(nil, uint32(len(body))))+"PAR1"))
}

const (
	importTrace = "workload import --layer 0 FILE"
	importTimes = "import FILE --ranks 8 --experts 256 --topk 8 --hidden 7168 -o out"
	showTable   = "table show --table FILE"
	replaySaved = "replay FILE"
	showPack    = "pack show FILE"
	sweepSpace  = "sweep --backend cpu --space FILE --dry-run"
	benchModel  = "bench --backend model:FILE"
	reportRun   = "report FILE --no-html"
	reportLog   = "report FILE --no-html --width 100"
	watchLog    = "watch FILE"
	compareLog  = "compare FILE FILE"
)

var hostileInputs = []hostileInput{
	{name: "dicts.pt", command: importTrace, make: pickled(times(60*mega, "}"))},
	{name: "lists.pt", command: importTrace, make: pickled(times(60*mega, "]"))},
	{name: "marks.pt", command: importTrace, make: pickled(times(60*mega, "("))},
	{name: "memo.pt", command: importTrace, make: pickled(texts(says("N"), times(60*mega, "\x94")))},
	{name: "ints.pt", command: importTrace, make: pickled(texts(says("("), times(30*mega, "K\x01"), says("t")))},
	{name: "self.pt", command: importTrace, make: pickled(says("]q\x00" + strings.Repeat("h\x00a", 1000)))},
	{name: "text.pt", command: importTrace, make: pickled(says("X\xff\xff\xff\x7fab"))},
	{name: "zeros.npz", command: importTrace, make: zipped("topk_ids.npy", texts(npy("<i4", "536870912, 1"), times(512*mega, "\x00")))},
	{name: "counts.npz", command: importTrace, make: zipped("counts.npy", texts(npy("|u1", "2147483648, 1, 1"), times(512*mega, "\x00")))},
	{name: "promise.npz", command: importTrace, make: zipped("topk_ids.npy", npy("<i4", "1152921504606846976, 1"))},
	{name: "promise.npy", command: importTrace, make: npy("<i4", "2199023255552, 32")},
	{name: "two60.npy", command: importTrace, make: npy("<i4", "1152921504606846976, 1")},
	{name: "deep.json", command: importTrace, make: texts(says(`{"logical_count":`), times(2_000_000, "["), times(2_000_000, "]"), says("}"))},
	{name: "ones.json", command: importTrace, make: texts(says("[[[1]"), times(12_000_000, ",[1]"), says("]]"))},
	{name: "quoted.csv", command: importTimes, make: texts(says("tokens,us\n"), times(10*mega, ",\"\n\""))},
	{name: "hollow.json", command: importTrace, make: texts(says("[[]"), times(12_000_000, ",[]"), says("]"))},
	{name: "names.json", command: importTrace, make: texts(says(`{"a":1`), times(6_000_000, `,"a":1`), says("}"))},
	{name: "commas.csv", command: importTrace, make: times(60*mega, ",")},
	{name: "cells.csv", command: importTrace, make: times(30*mega, ",\n")},
	{name: "pairs.csv", command: importTrace, make: func(w io.Writer) {
		io.WriteString(w, "layer_id,expert_id,count\n")
		for l := range 20 {
			for e := range 65536 {
				fmt.Fprintf(w, "%d,%d,1\n", l, e)
			}
		}
	}, fine: true},
	{name: "line.jsonl", command: importTrace, make: times(60*mega, "[")},
	{name: "long.parquet", command: importTimes, make: parquetOf(20_000, 4096)},
	{name: "list.parquet", command: importTimes, make: footer("\x19\xfc\xff\xff\xff\xff\x07")},
	// The file is made by a function that only the test calls, because every start of the test program makes this list.
	{name: "structs.parquet", command: importTimes, make: func(w io.Writer) {
		footer("\x19\xfc\x80\x80\x80\x02" + strings.Repeat("\x00", 4*mega))(w)
	}},
	{name: "text.parquet", command: importTimes, make: footer("\x18\x80\x80\x80\x80\x20")},
	{name: "commas.txt", command: importTimes, make: texts(says("tokens,us\n"), times(60*mega, ","))},
	{name: "rows.csv", command: importTimes, make: texts(says("tokens,us"), times(1000, ",x"), says("\n"), times(20_000, strings.Repeat(",", 1001)+"\n"))},
	{name: "objects.json", command: importTimes, make: texts(says(`[{"moe_ep_size":1}`), times(10*mega, `,{}`), says("]"))},
	{name: "rules.json", command: importTimes, make: texts(says(`{"kernel_type":"mori","ep_size":8,"rules":[{}`), times(10*mega, `,{}`), says("]}"))},
	{name: "lines.log", command: importTimes, make: times(30*mega, "1\n")},
	{name: "cycles.csv", command: importTimes, make: texts(says("numCycle,collective,gpus,size,type,redop,inplace,time,algbw,busbw,#wrong\n"), times(4*mega, "0,,,,,,,,,,\n"))},
	{name: "cycles.json", command: importTimes, make: texts(says(`[{"numCycle":0,"inPlace":1}`), times(10*mega, `,{}`), says("]"))},
	{name: "points.json", command: importTimes, make: texts(says(`{"coverage":[],"terminal_cases":1,"series":[{"series_id":"x","system":{"ep_size":8},"points":[{}`), times(10*mega, ",{}"), says("]}]}"))},
	{name: "components.json", command: importTimes, make: texts(says(`{"record_type":"case-attempt","measurement":{"rows":[{"components":{"":{}`), times(4*mega, `,"":{}`), says("}}]}}"))},
	{name: "moon.csv", command: importTimes, make: texts(says("ep,H,K,S,s,E,dispatch_fwd_us\n"), times(6*mega, ",,,,,,\n"))},
	{name: "moon.txt", command: importTimes, make: texts(says(" ep     H   K     S     s    E    Hp     d_fwd\n"), times(3*mega, "8 1 1 1 1 1 1 1\n"))},
	{name: "megatron.jsonl", command: importTrace, make: texts(says(`{"block":"decoder","layer":0,"topk":1,"top_indices":[[1]`), times(15*mega, ",[]"), says("]}"))},
	{name: "record.jsonl", command: importTrace, make: texts(says(`{"block":"decoder","layer":0,"topk":0,"top_indices":[[]`), times(1_600_000, ",[]"), says("]}"))},
	{name: "tpe.jsonl", command: importTrace, make: times(600_000, `{"block":"decoder","layer":0,"tpe":[[0,0,0,0],[0]]}`+"\n")},
	{name: "layers.jsonl", command: importTrace, make: func(w io.Writer) {
		for i := range 600_000 {
			fmt.Fprintf(w, `{"block":"decoder","layer":%d,"tpe":[[0]]}`+"\n", i)
		}
	}},
	{name: "vllm.log", command: importTrace, make: times(60*mega, "EPLB")},
	{name: "steps.log", command: importTrace, make: times(mega, "EPLB step: avg_tokens=1.00, max_tokens=2, balancedness=0.5000\n")},
	{name: "closed.json", command: showTable, make: says(`{"schema":2,"rows":[}`)},
	{name: "colon.json", command: showTable, make: says(`{"schema":2,"rows":[:`)},
	{name: "rows.json", command: showTable, make: texts(says(`{"schema":2,"rows":[{}`), times(12*mega, ",{}"), says("]}"))},
	{name: "big.json", command: showTable, make: texts(says(`{"schema":2,"rows":[`), times(100*mega, " "))},
	{name: "deep2.json", command: showTable, make: times(10*mega, `{"a":`)},
	{name: "spaces.rounds.gz", command: replaySaved, make: gzipped(times(512*mega, " "))},
	{name: "points.rounds.gz", command: replaySaved, make: gzipped(texts(says(`{"schema":2,"tool":"`), times(512*mega, "x")))},
	{name: "zeros.pack", command: showPack, make: times(64*mega, "\x00")},
	{name: "magic.pack", command: showPack, make: texts(says("EPCOMMPK\x01\x00\x00\x00"), times(mega, "\xff"))},
	{name: "bomb.yaml", command: sweepSpace, make: func(w io.Writer) {
		io.WriteString(w, "a: &a [x,x,x,x,x,x,x,x,x]\n")
		for c := 'b'; c <= 'z'; c++ {
			fmt.Fprintf(w, "%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ","))
		}
	}},
	{name: "wide.yaml", command: sweepSpace, make: times(30*mega, "- ")},
	{name: "model.yaml", command: benchModel, make: times(30*mega, "- ")},
	{name: "run", command: reportRun, make: times(60*mega, "{")},
	{name: "cases", command: reportLog, make: logOfCases(100_000)},
	{name: "cases-watched", command: watchLog, make: logOfCases(100_000)},
	{name: "cases-compared", command: compareLog, make: logOfCases(19_000), fine: true},
	{name: "failures-watched", command: watchLog, make: func(w io.Writer) {
		for i := range 50_000 {
			fmt.Fprintf(w, logLine+"\n", i == 49_999, 8, fmt.Sprintf(`,"config":{"kernel":"k%d","values":{}},"status":"crash"`, i))
		}
	}, fine: true},
	{name: "rounds", command: reportLog, make: logOfList("seconds", "[0]", 1_900_000)},
	{name: "rounds-watched", command: watchLog, make: logOfList("seconds", "[0]", 1_900_000)},
	{name: "stages", command: reportLog, make: logOfList("layer_stages", "{}", 2_500_000)},
	{name: "warnings", command: reportLog, make: logOfList("warnings", `""`, 2_500_000)},
}

// logLine is a format string for a log line. It takes whether a block ends, the token count, and further fields.
const logLine = `{"schema":2,"end":%v,"problem":{"op":"dispatch","mode":"eager","ranks":4,"nodes":1,"hidden":512,"experts":32,"top_k":4,"tokens":%d,"max_tokens":999999,"dispatch":"bf16","combine":"bf16","shared_expert":false,"skip_a2a":false,"precision":"full"},"role":"candidate"%s}`

func logOfCases(n int) func(io.Writer) {
	return func(w io.Writer) {
		for i := range n {
			fmt.Fprintf(w, logLine+"\n", true, 1+i, `,"status":"ok"`)
		}
	}
}

// logOfList writes eight log lines with lists of n elements.
func logOfList(field, element string, n int) func(io.Writer) {
	return func(w io.Writer) {
		for range 8 {
			fmt.Fprintf(w, logLine+"\n", true, 8, fmt.Sprintf(`,"status":"ok","%s":[%s%s]`, field, element, strings.Repeat(","+element, n-1)))
		}
	}
}

// Peak memory may be the larger of two numbers: leastPeak bytes, and peakTimes times the file's size. mostCPU limits
// processor time.
const (
	leastPeak = 256 * mega
	peakTimes = 8
	mostCPU   = 5 * time.Second
	hangs     = 3 * time.Minute
)

// TestHostileInputs: on a hostile file no command hangs, panics or uses too much memory.
func TestHostileInputs(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("the test builds the program and measures its memory on Linux")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "epbench")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, x := range hostileInputs {
		path := filepath.Join(dir, x.name)
		if err := makeHostile(path, x); err != nil {
			t.Fatal(err)
		}
		peak, took, bytes := costOf(t, program, path, x)
		if limit := max(leastPeak, peakTimes*bytes); peak > limit {
			t.Errorf("%s: the peak of memory is %d MiB, %d MiB are allowed for a file of %d bytes", x.name, peak/mega, limit/mega, bytes)
		}
		if took > mostCPU {
			t.Errorf("%s: the command took %.1f s of processor time, %v is allowed", x.name, took.Seconds(), mostCPU)
		}
		t.Logf("%-18s %-16.16s %11d bytes %5d MiB %6.1f s", x.name, x.command, bytes, peak/mega, took.Seconds())
		os.RemoveAll(path)
	}
}

const hostileRun = `{"schema":2,"tool":"x","command":["epbench","bench"],"started":"2026-11-26T00:00:00Z","machine":{"backend":"x","name":"x","arch":"x","sms":4,"gpus":0,"link":"none"},"abi":"x","policy":"","band":0.01,"seed":1,"strategy":"auto"}`

// hostileFiles returns the names of two files in a run directory, a hostile one and a harmless one, and the text of the
// harmless one. All three are "" if the command reads no run.
func hostileFiles(command string) (hostile, harmless, content string) {
	switch command {
	case reportRun:
		return "run.json", "trials.jsonl", ""
	case reportLog, watchLog, compareLog:
		return "trials.jsonl", "run.json", hostileRun
	}
	return "", "", ""
}

func makeHostile(path string, x hostileInput) error {
	if hostile, harmless, content := hostileFiles(x.command); hostile != "" {
		if err := os.Mkdir(path, 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(path, harmless), []byte(content), 0o666); err != nil {
			return err
		}
		path = filepath.Join(path, hostile)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	x.make(f)
	return f.Close()
}

// costOf runs the command. It returns the peak of memory in bytes, the processor time, and the file's size in bytes.
func costOf(t *testing.T, program, path string, x hostileInput) (peak int64, took time.Duration, bytes int64) {
	t.Helper()
	args := strings.Fields(strings.ReplaceAll(x.command, "FILE", path))
	var out bytesOf
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Dir(path), &out, &out
	cmd.Env = append(os.Environ(), "HOME="+filepath.Dir(path))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(hangs, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	if !kill.Stop() {
		t.Errorf("%s: the command ran longer than %v and was killed", x.name, hangs)
	}
	said := out.String()
	if (err == nil) != x.fine || strings.Contains(said, "panic") || strings.Contains(said, "goroutine ") || err != nil && len(said) > 2*maxComplaint {
		t.Errorf("%s: %v, %d bytes: %.300s", x.name, err, len(said), said)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	bytes = info.Size()
	if info.IsDir() {
		hostile, _, _ := hostileFiles(x.command)
		info, _ = os.Stat(filepath.Join(path, hostile))
		bytes = info.Size()
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return usage.Maxrss << 10, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), bytes
}

type bytesOf struct{ bytes.Buffer }

func TestLongErrorsAreCut(t *testing.T) {
	got := shortened("epbench: begins " + strings.Repeat("é", mega) + " ends")
	if len(got) > maxComplaint+100 || !strings.HasPrefix(got, "epbench: begins é") || !strings.HasSuffix(got, "é ends") || !strings.Contains(got, "bytes left out") {
		t.Errorf("%d bytes: %.60s", len(got), got)
	}
	if short := "epbench: " + strings.Repeat("x", 1000); shortened(short) != short {
		t.Error("a short error is cut")
	}
}
