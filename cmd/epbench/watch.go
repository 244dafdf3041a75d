package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports/live"
	"github.com/epbench/epbench/reports/text"
)

type watchFlags struct {
	every time.Duration
	html  bool
}

func newWatch() *cobra.Command {
	f := &watchFlags{}
	cmd := &cobra.Command{
		Use:   "watch RUN",
		Short: "Follow a running sweep: best so far, kernels, time left, failures",
		Long: `Follow a sweep that runs in another terminal or on another host. watch only reads the run
directory. It draws the page again and again until the sweep has ended. If its output is
not a terminal, it prints the page once.
Ctrl-C ends watch, not the sweep.

--html serves the page of epbench report to browsers on this host. They reload it while
the sweep runs.`,
		Example: `  epbench watch run
  epbench watch run --every 10s
  epbench watch run --html`,
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags(cmd, forOutput, func(s *pflag.FlagSet) {
		s.DurationVar(&f.every, "every", 2*time.Second, "`TIME` between two readings of the run")
		s.BoolVar(&f.html, "html", false, "serve the report page at an address of this host, and print the address")
	})
	return cmd
}

func (f *watchFlags) run(cmd *cobra.Command, path string) error {
	if f.every < 100*time.Millisecond {
		return usagef("--every: %v is below 100ms", f.every)
	}
	if f.html {
		return serveReport(cmd, path, f.every)
	}
	follower := live.Follow(path)
	out := unwrapped(cmd.OutOrStdout())
	width := widthOf(out)
	for {
		if err := follower.Update(time.Now()); err != nil {
			return badInput(err)
		}
		if err := drawPage(out, follower, width, heightOf(out)); err != nil {
			return fmt.Errorf("standard output: %w", err)
		}
		if width == 0 || !follower.Run.Finished.IsZero() {
			return nil
		}
		select {
		case <-cmd.Context().Done():
			return nil
		case <-time.After(f.every):
		}
	}
}

// Escape sequences of ECMA-48.
const (
	home     = "\x1b[H" // go to the first line
	eraseEnd = "\x1b[K" // erase the rest of the line
	eraseAll = "\x1b[J" // erase the rest of the screen
)

// heightOf returns the number of lines of a terminal, or 0 for another writer.
func heightOf(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		_, rows := windowSize(f)
		return rows
	}
	return 0
}

// drawPage prints the state of a run. On a terminal (width above 0) it overwrites the previous page.
func drawPage(w io.Writer, f *live.Follower, width, height int) error {
	page, err := fittingPage(f, width, height)
	if err != nil {
		return err
	}
	if width > 0 {
		page = home + strings.ReplaceAll(page, "\n", eraseEnd+"\n") + eraseAll
	}
	_, err = io.WriteString(w, page)
	return err
}

// fittingPage returns as many searches as fit into the terminal, or all if the height is 0. One line stays free for the
// cursor, otherwise the terminal would scroll.
func fittingPage(f *live.Follower, width, height int) (string, error) {
	now := time.Now()
	most := len(f.Searches)
	if height > 0 {
		most = min(most, height) // a row has at least one line
	}
	for ; ; most-- {
		var b bytes.Buffer
		if lead := f.Run.Rehearsal(); lead != "" {
			fmt.Fprintln(&b, lead)
		}
		if err := text.Renderer(width)(&b, f.Page(now, most)); err != nil {
			return "", err
		}
		lines := strings.SplitAfter(b.String(), "\n")
		switch {
		case height == 0 || len(lines) <= height:
			return b.String(), nil
		case most <= 1:
			return strings.Join(lines[:height-1], ""), nil
		}
	}
}
