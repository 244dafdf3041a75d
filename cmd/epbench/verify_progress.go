package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const verifyEvery = 10 * time.Second // between two lines of progress

type verifyProgress struct {
	mu    sync.Mutex
	out   io.Writer
	all   int
	done  int
	start time.Time
	took  time.Duration // time of the cases that are done
	stop  chan struct{}
	ended sync.WaitGroup
}

func startVerifyProgress(out io.Writer, all int, every time.Duration) *verifyProgress {
	p := &verifyProgress{out: out, all: all, start: time.Now(), stop: make(chan struct{})}
	p.ended.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-p.stop:
				return
			case <-tick.C:
				p.print()
			}
		}
	})
	return p
}

func (p *verifyProgress) print() {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := ""
	if p.done > 0 {
		left = fmt.Sprintf(", about %v left", remaining(p.took, time.Since(p.start)-p.took, int64(p.done), int64(p.all)).Round(time.Second))
	}
	fmt.Fprintf(p.out, "verify: %d of %d cases%s\n", p.done, p.all, left)
}

func (p *verifyProgress) add(failures ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	p.took = time.Since(p.start)
	for _, text := range failures {
		fmt.Fprintf(p.out, "verify: %s\n", text)
	}
}

func (p *verifyProgress) close() {
	close(p.stop)
	p.ended.Wait()
}
