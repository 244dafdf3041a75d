package declare

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/epbench/epbench/kernels/ref"
)

// Litmus is a small kernel of native/kernels/ep/litmus.cuh that tests one device primitive. It runs on all ranks at
// once, in the emulator and on GPUs.
type Litmus struct {
	Name    string
	Launch  Launch
	Area    int64                              // bytes of the region, which starts as zeros
	checks  int                                // checks that each rank counts in counters[2]
	Prepare func(area []byte)                  // fills a rank's region; nil keeps the zeros
	check   func(areas [][]byte, me int) error // checks the region of rank `me`; may be nil
}

// Values of EpArgs.scope: the threads between which ep_litmus_pass passes messages (EP_LITMUS_BLOCK and so on).
const (
	withinBlock = iota
	betweenBlocks
	betweenRanks
)

const LitmusSource = "ep/litmus.cuh"

// Litmuses lists the litmus kernels. Messages and signals are passed `rounds` times.
func Litmuses(rounds int) []Litmus {
	pass := func(where string, scope int) Litmus {
		return Litmus{Name: "message passing " + where, Launch: litmusLaunch("ep_litmus_pass", 2, 64, scope, rounds), Area: 1024, checks: rounds}
	}
	return []Litmus{
		{Name: "block_memcpy", Launch: litmusLaunch("ep_litmus_memcpy", 4, 96, copies, copyStep, copyCell, copyPeer),
			Area: 2 * copies * copyCell, Prepare: prepareCopies, check: checkCopies},
		{Name: "block_prefix_sum", Launch: litmusLaunch("ep_litmus_scan", 4, 128, 1024), checks: 1024},
		pass("in a block", withinBlock),
		pass("between blocks", betweenBlocks),
		pass("between ranks", betweenRanks),
		litmusSignal(2, rounds),
		{Name: "codecs", Launch: litmusLaunch("ep_litmus_codec", 2, 128), Area: 4 << 16, check: checkCodecs},
	}
}

// State returns the memory of l.
func (l Litmus) State() State { return areaState("litmus", l.Area, 16) }

// Judge checks the results of l on all ranks. The first three counters count the waits that were
// given up, the violations and the checks.
func (l Litmus) Judge(areas [][]byte, counters [][]int32) error {
	for rank, c := range counters {
		if c[0] != 0 || c[1] != 0 || int(c[2]) != l.checks {
			return fmt.Errorf("rank %d: gave up waiting %d times, found %d violations in %d checks; want no violation in %d checks", rank, c[0], c[1], c[2], l.checks)
		}
		if l.check == nil {
			continue
		}
		if err := l.check(areas, rank); err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
	}
	return nil
}

func litmusLaunch(entry string, grid, block int, own ...int) Launch {
	l := Launch{Entry: entry, Grid: grid, Block: block}
	copy(l.Params.Own[:], own)
	return l
}

// Pieces of growing size are copied into the region of rank copyPeer.
const (
	copies   = 61
	copyStep = 7 // vectors by which a piece is larger than the one before
	copyCell = 16 + 16*copies*copyStep + 256
	copyPeer = 1
)

func copiedByte(i int) byte { return byte(i*7 + i>>8*13 + 1) }

func prepareCopies(area []byte) {
	for i := range copies * copyCell {
		area[i] = copiedByte(i)
	}
}

func checkCopies(areas [][]byte, me int) error {
	if me != copyPeer {
		return nil
	}
	for n := range copies {
		lo := 16 * (n % 8)
		hi := lo + 16 + 16*n*copyStep
		for i, got := range areas[me][(copies+n)*copyCell : (copies+n+1)*copyCell] {
			want := byte(0)
			if i >= lo && i < hi {
				want = copiedByte(n*copyCell + i - lo)
			}
			if got != want {
				return fmt.Errorf("copy of %d bytes to offset %d: byte %d is %#02x, want %#02x", hi-lo, lo, i, got, want)
			}
		}
	}
	return nil
}

// litmusSignal passes 32 words and a signal from each block to the same block of the next rank.
func litmusSignal(blocks, rounds int) Litmus {
	ones := func(area []byte) {
		for block := range slices.Chunk(area, 1024) {
			binary.LittleEndian.PutUint64(block[256:], math.MaxUint64)
		}
	}
	return Litmus{Name: "ep_signal_completion", Launch: litmusLaunch("ep_litmus_signal", blocks, 64, 0, rounds),
		Area: int64(1024 * blocks), checks: 33 * blocks * rounds, Prepare: ones}
}

// checkCodecs compares the device's conversions with the oracle's, for every BF16 value.
func checkCodecs(areas [][]byte, me int) error {
	for i := range 1 << 16 {
		x := ref.BF16ToFloat(uint16(i))
		if x != x {
			continue // chips convert NaN differently
		}
		abs := math.Float32frombits(math.Float32bits(x) &^ (1 << 31))
		want := [4]byte{ref.E4M3(x), ref.E2M1(x), ref.EvenE8M0(abs), byte(ref.BF16(x * 1.001953125))}
		if got := [4]byte(areas[me][4*i:]); got != want {
			return fmt.Errorf("%g: e4m3, e2m1, e8m0, bf16 are %#02x, want %#02x", x, got, want)
		}
	}
	return nil
}
