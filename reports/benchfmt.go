package reports

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/perf/benchfmt"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// WriteBench writes rounds in Go's benchmark format (https://golang.org/design/14313-benchmark-format), for
// benchstat. If `all` is true, it writes every round, and the benchmark's name has the search's stage and the config's
// role. If `all` is false, it writes only the rounds that decided the winner, and only for the default, the winner and
// compared libraries.
func WriteBench(w io.Writer, l *Loaded, all bool) error {
	out := benchfmt.NewWriter(w)
	m := l.Run.Machine
	b := benchWriter{out: out, config: []benchfmt.Config{
		bench("tool", l.Run.Tool), bench("machine", m.Key()), bench("gpu", m.Name), bench("abi", string(l.Run.ABI)),
	}}
	for _, c := range l.Cases {
		p := c.Problem
		prefix := fmt.Sprintf("%s/mode=%s/dtype=%s/ranks=%d/hidden=%d/experts=%d/topk=%d/routing=%s/tokens=%d", title(string(p.Op)), p.Mode, p.Dispatch, p.Ranks,
			p.Hidden, p.Experts, p.TopK, benchWord(c.Routing), p.Tokens)
		if p.Beside != "" {
			prefix += "/objective=" + p.Objective.String() + "/beside=" + p.Beside
		}
		if p.Precision == ep.Reduced {
			prefix += "/precision=reduced"
		}
		if all {
			b.every(prefix, c)
		} else {
			b.deciding(prefix, c)
		}
	}
	return b.err
}

type benchWriter struct {
	out    *benchfmt.Writer
	config []benchfmt.Config
	err    error
}

func (b *benchWriter) write(name string, seconds float64) {
	if b.err == nil {
		b.err = b.out.Write(&benchfmt.Result{Config: b.config, Name: benchfmt.Name(name), Iters: 1,
			Values: []benchfmt.Value{{Value: math.Round(seconds*1e12) / 1e3, Unit: "ns/op"}}})
	}
}

func (b *benchWriter) deciding(prefix string, c *Case) {
	times := func(label string, e *Entry) {
		if e == nil || !e.OK() {
			return
		}
		for _, t := range e.Times {
			b.write(prefix+"/config="+label, t)
		}
	}
	times("default", c.Default())
	times("tuned", c.Winner())
	for _, e := range c.Entries {
		if e.Role == record.Peer {
			times(benchWord(e.Config.Kernel), e)
		}
	}
}

func (b *benchWriter) every(prefix string, c *Case) {
	for _, e := range c.Entries {
		if !e.OK() {
			continue
		}
		for _, block := range e.Blocks {
			for _, seconds := range block.Rounds() {
				b.write(fmt.Sprintf("%s/stage=%s/role=%s/config=%s", prefix, block.Stage, block.Role, e.Config.ID()), seconds)
			}
		}
	}
}

func bench(key, value string) benchfmt.Config {
	return benchfmt.Config{Key: key, Value: []byte(strings.Join(strings.Fields(strings.Map(visible, value)), " ")), File: true}
}

func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func benchWord(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '=':
			return '-'
		case r == '/' || r == utf8.RuneError || unicode.IsSpace(visible(r)):
			return '_'
		}
		return r
	}, s)
}
