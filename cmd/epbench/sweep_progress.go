package main

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/epbench/epbench/tune/sweep"
)

// progress shows a bar on a terminal, and prints lines elsewhere.
type progress struct {
	out   io.Writer
	bars  *mpb.Progress // nil if the output is not a terminal
	bar   *mpb.Bar
	title atomic.Value // string; the bar's goroutine also reads it
	start time.Time
	last  time.Time

	done atomic.Int64 // searches
	took atomic.Int64 // nanoseconds of all done searches together
}

const leastBar = 10

// everySeconds is the least time between two lines of progress where there is no terminal for a bar.
const everySeconds = 5 * time.Second

func newProgress(stderr io.Writer) *progress {
	p := &progress{out: stderr, start: time.Now(), last: time.Now()}
	if f := unwrapped(stderr); widthOf(f) > 0 {
		p.bars = mpb.New(mpb.WithOutput(f), mpb.WithWidth(32))
	}
	return p
}

func (p *progress) event(e sweep.Event) {
	title := e.Title
	if e.Stage != "" {
		title += ", " + string(e.Stage)
	}
	p.title.Store(title)
	if p.done.Swap(int64(e.Done)) != int64(e.Done) {
		p.took.Store(int64(time.Since(p.start)))
	}
	if p.bars == nil {
		if time.Since(p.last) >= everySeconds {
			p.last = time.Now()
			fmt.Fprintf(p.out, "%d of %d searches done; %s\n", e.Done, e.All, title)
		}
		return
	}
	if p.bar == nil {
		p.bar = p.bars.New(int64(e.All), hidingBar{},
			mpb.PrependDecorators(decor.CountersNoUnit("%d/%d searches"), decor.Any(p.timeLeft)),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return " " + p.title.Load().(string) })))
	}
	p.bar.SetCurrent(int64(e.Done))
}

// hidingBar builds a bar that is not drawn if there is no room.
type hidingBar struct{}

func (hidingBar) Build() mpb.BarFiller {
	bar := mpb.BarStyle().Build()
	return mpb.BarFillerFunc(func(w io.Writer, s decor.Statistics) error {
		if s.AvailableWidth < leastBar {
			return nil
		}
		return bar.Fill(w, s)
	})
}

// timeLeft estimates the time to the end, or returns "".
func (p *progress) timeLeft(s decor.Statistics) string {
	done, took := p.done.Load(), time.Duration(p.took.Load())
	if done == 0 || done == s.Total {
		return ""
	}
	return fmt.Sprintf(", %v left", remaining(took, time.Since(p.start)-took, done, s.Total).Round(time.Second))
}

// remaining estimates the time to the end. `running` is the current search's time so far.
func remaining(took, running time.Duration, done, all int64) time.Duration {
	return max(0, time.Duration(float64(took)/float64(done)*float64(all-done))-running)
}

func (p *progress) stop() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.bars.Wait()
	}
}
