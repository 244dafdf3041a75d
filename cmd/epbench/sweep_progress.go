package main

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/epbench/epbench/tune/sweep"
)

// progress shows how far a sweep is: a bar on a terminal, else a line per
// search, at most one every few seconds.
type progress struct {
	out   io.Writer
	bars  *mpb.Progress // nil off a terminal
	bar   *mpb.Bar
	title atomic.Value // string; the bar is drawn by another goroutine
	last  time.Time
}

// everySeconds between two plain lines.
const everySeconds = 5 * time.Second

func newProgress(stderr io.Writer) *progress {
	p := &progress{out: stderr, last: time.Now()}
	if f, ok := stderr.(*os.File); ok && windowWidth(f) > 0 {
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
	if p.bars == nil {
		if time.Since(p.last) >= everySeconds {
			p.last = time.Now()
			fmt.Fprintf(p.out, "%d of %d searches done; %s\n", e.Done, e.All, title)
		}
		return
	}
	if p.bar == nil {
		p.bar = p.bars.AddBar(int64(e.All),
			mpb.PrependDecorators(decor.CountersNoUnit("%d/%d searches "), decor.AverageETA(decor.ET_STYLE_GO)),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return " " + p.title.Load().(string) })))
	}
	p.bar.SetCurrent(int64(e.Done))
}

// stop takes the bar off the terminal.
func (p *progress) stop() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.bars.Wait()
	}
}
