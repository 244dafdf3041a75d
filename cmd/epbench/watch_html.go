package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/reports/html"
	"github.com/epbench/epbench/reports/live"
	"github.com/epbench/epbench/tune/record"
)

// leastRefresh limits how often a browser loads the page again.
const leastRefresh = 5 * time.Second

func serveReport(cmd *cobra.Command, path string, every time.Duration) error {
	if _, err := record.ReadRun(path); err != nil {
		return badInput(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	page := &livePage{path: path, every: max(every, leastRefresh)}
	server := &http.Server{Handler: page, ReadTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute}
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		<-cmd.Context().Done()
		server.Close()
	}()
	fmt.Fprintf(cmd.OutOrStdout(), "http://%s/ shows %s; Ctrl-C stops the server\n", listener.Addr(), path)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-stop
	return nil
}

type livePage struct {
	path  string
	every time.Duration

	mu       sync.Mutex
	follower *live.Follower // nil before the first page
	made     string         // state of the files from which text was made
	text     []byte
	finished bool
}

// ServeHTTP refuses requests that name another host, so that no other web site can read the run.
func (p *livePage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.Host)
	switch {
	case err != nil || host != "127.0.0.1" && host != "localhost":
		http.Error(w, "only requests to 127.0.0.1 are answered", http.StatusForbidden)
		return
	case r.URL.Path != "/":
		http.NotFound(w, r)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.Error(w, "only GET and HEAD are answered", http.StatusMethodNotAllowed)
		return
	}
	text, finished, err := p.make()
	w.Header().Set("Cache-Control", "no-store")
	if !finished {
		w.Header().Set("Refresh", strconv.Itoa(int(p.every.Seconds())))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(text)
}

// make returns the page. It makes a new page only if a file has changed.
func (p *livePage) make() (text []byte, finished bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	state := fileState(p.path)
	if p.text != nil && state == p.made {
		return p.text, p.finished, nil
	}
	l, err := reports.Load(p.path)
	if err != nil {
		return nil, false, err
	}
	var o html.Options
	if l.Run.Finished.IsZero() {
		if o.Progress, err = p.progress(); err != nil {
			return nil, false, err
		}
	}
	var b bytes.Buffer
	if err := html.Write(&b, []*reports.Loaded{l}, o); err != nil {
		return nil, false, err
	}
	p.made, p.text, p.finished = state, b.Bytes(), !l.Run.Finished.IsZero()
	return p.text, p.finished, nil
}

func (p *livePage) progress() (string, error) {
	if p.follower == nil {
		p.follower = live.Follow(p.path)
	}
	now := time.Now()
	if err := p.follower.Update(now); err != nil {
		return "", err
	}
	return p.follower.Progress(now) + ". This page reloads itself while the sweep runs.", nil
}

// fileState returns a text that changes if run.json or the log changes.
func fileState(path string) string {
	var b strings.Builder
	for _, name := range []string{record.RunFile, record.TrialsFile} {
		if info, err := os.Stat(filepath.Join(path, name)); err == nil {
			fmt.Fprintln(&b, name, info.Size(), info.ModTime().UnixNano())
		}
	}
	return b.String()
}
