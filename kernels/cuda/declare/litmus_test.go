package declare

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/testfile"
)

const litmusRanks = 2

// runLitmus returns each rank's region and counters.
func runLitmus(t *testing.T, tools *emulator, l Litmus, defines ...string) (areas, counters [][]byte, err error) {
	t.Helper()
	p := ep.Problem{Ranks: litmusRanks, Hidden: 128, Experts: 4, TopK: 2, Dispatch: ep.BF16}
	object, err := tools.compile(LitmusSource, append(problemDefines(p), defines...))
	if err != nil {
		t.Fatal(err)
	}
	at := func(rank int) int64 { return int64(rank) * (l.Area + 4096) }
	mem := make([]byte, at(litmusRanks))
	job := []string{"object " + object, "arena " + filepath.Join(t.TempDir(), "arena"), fmt.Sprintf("ranks %d", litmusRanks),
		fmt.Sprintf("set * ranks %d", litmusRanks), fmt.Sprintf("set * deadline_ns %d", emulPatience)}
	for r := range litmusRanks {
		job = append(job, fmt.Sprintf("set %d rank %d", r, r), fmt.Sprintf("ptr %d counters %d", r, at(r)+l.Area))
		for q := range litmusRanks {
			job = append(job, fmt.Sprintf("ptr %d heap[%d] %d", r, q, at(q)))
		}
		if l.Prepare != nil {
			l.Prepare(mem[at(r) : at(r)+l.Area])
		}
	}
	arena := strings.TrimPrefix(job[1], "arena ")
	testfile.Write(t, arena, mem)
	if err := tools.run(2*emulPatience, append(job, launchLine(l.Launch), "run 1")); err != nil {
		return nil, nil, err
	}
	mem = testfile.Read(t, arena)
	for r := range litmusRanks {
		areas = append(areas, mem[at(r):at(r)+l.Area])
		counters = append(counters, mem[at(r)+l.Area:at(r)+l.Area+16])
	}
	return areas, counters, nil
}

func TestLitmus(t *testing.T) {
	emulator := need(t, emulTools)
	for _, l := range Litmuses(300) {
		t.Run(l.Name, func(t *testing.T) {
			areas, counters, err := runLitmus(t, emulator, l)
			if err != nil {
				t.Fatal(err)
			}
			counts := make([][]int32, len(counters))
			for r, c := range counters {
				counts[r] = words[int32](c)
			}
			if err := l.Judge(areas, counts); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRaceDetectorSeesMissingFence: the race detector reports a race if the fence of the signal litmus is removed.
func TestRaceDetectorSeesMissingFence(t *testing.T) {
	detector := need(t, raceTools)
	if _, _, err := runLitmus(t, detector, litmusSignal(1, 20)); err != nil {
		t.Fatal(err)
	}
	_, _, err := runLitmus(t, detector, litmusSignal(1, 20), "EP_LITMUS_FENCE=0")
	if err == nil || !strings.Contains(err.Error(), "data race") {
		t.Fatalf("without the fence: %v, want a data race", err)
	}
}

// TestEPLayout: Go and device code compute the same sizes. Each region has room for the larger algorithm.
func TestEPLayout(t *testing.T) {
	emulator := need(t, emulTools)
	p := ep.Problem{Ranks: litmusRanks, Hidden: 128, Experts: 4, TopK: 2, Dispatch: ep.BF16, MaxTokens: 65536}
	z := sizesOf(p)
	ends := map[string]int64{}
	for algo, message := range []int64{z.direct, z.dedup} {
		l := Litmus{Launch: litmusLaunch("ep_litmus_layout", 1, 32), Area: 4096}
		areas, _, err := runLitmus(t, emulator, l, Define("EP_ALGO", algo))
		if err != nil {
			t.Fatal(err)
		}
		word := func(i int) int64 { return int64(binary.LittleEndian.Uint64(areas[0][8*i:])) }
		for i, want := range []int64{message, int64(countersEP(p)), int64(encodingOf(p).ScaleOffset()), int64(encodingOf(p).TokenBytes()),
			int64(encodingOf(p).Message(p.TopK).IDs)} {
			if word(i) != want {
				t.Errorf("algo %d: size %d is %d on the device, %d in Go", algo, i, word(i), want)
			}
		}
		for name, end := range map[string]int64{"recv": word(5) + message, "counts": 8*word(6) + 8,
			"return": word(7) + 2*int64(p.Hidden), "send": word(8) + message} {
			ends[name] = max(ends[name], end)
		}
	}
	for _, r := range epState.RegionsFor(p) {
		if end, known := ends[r.Name]; known && end != r.Bytes {
			t.Errorf("region %s has %d bytes, the last one in use ends at %d", r.Name, r.Bytes, end)
		}
	}
}
