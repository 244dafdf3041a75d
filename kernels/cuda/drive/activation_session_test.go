//go:build cuda

package drive

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

// TestSessionActivation runs every dtype on one and two ranks.
func TestSessionActivation(t *testing.T) {
	for _, d := range ep.DTypes() {
		for _, ranks := range []int{1, 2} {
			t.Run(fmt.Sprint(d, "/", ranks), func(t *testing.T) {
				p := smallActivation(d, 24)
				p.Ranks = ranks
				b, s := openSession(t, Options{Loopback: true, Clock: clockEvent, Deadline: 20 * time.Second}, p)
				k := kernels.For(b.Kernels(), p)[0]
				base := k.DefaultConfig(b.Machine(), p).With("threads", "64")
				for _, c := range []ep.Config{
					base, base.With("in_flight", "2"), base.With("in_flight", "4").With("columns", "interleaved"), base.With("clamp", "gpt-oss").With("pdl", "1"),
				} {
					runConfig(t, b, s, k, c)
				}
			})
		}
	}
}

func TestSessionActivationCopies(t *testing.T) {
	p := smallActivation(ep.FP8, 24)
	b, s := openSession(t, Options{Deadline: 20 * time.Second}, p)
	k := kernels.For(b.Kernels(), p)[0]
	c := k.DefaultConfig(b.Machine(), p).With("threads", "64")
	runConfig(t, b, s, k, c)
	if v, err := s.Verify(t.Context(), c); err != nil || !v.OK() {
		t.Fatal(v, err)
	}
	n := s.activation.oracle.Dispatch(0).End * dtype.Of(p.Dispatch, p.Hidden).Payload
	var copies [4][]byte
	for i := range copies {
		b, err := s.read(0, s.activation.part(declare.PartOut, i), n, 0)
		if err != nil {
			t.Fatal(err)
		}
		copies[i] = b[0]
	}
	if !bytes.Equal(copies[0], copies[1]) || !bytes.Equal(copies[0], copies[2]) {
		t.Error("the second or third call of a round has another output than the first")
	}
	if !bytes.Equal(copies[3], bytes.Repeat([]byte{0xff}, n)) {
		t.Error("three calls wrote a fourth copy")
	}
}

// smallActivation returns a problem for an emulated GPU. A warp computes 256 columns at a
// time. The 384 columns of the problem are no multiple of them.
func smallActivation(d ep.DType, tokens int) ep.Problem {
	return ep.Problem{Op: ep.Activation, Mode: ep.Graph, Ranks: 1, Nodes: 1, Hidden: 384, Experts: 40, TopK: 2,
		Tokens: tokens, MaxTokens: max(tokens, 1), Dispatch: d, Combine: ep.BF16}
}
