package reports

import (
	"fmt"
	"io"
	"math"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// WriteBench writes every deciding round as a result in Go's benchmark format
// (https://golang.org/design/14313-benchmark-format), for benchstat. The case is
// the name, the config a sub-name.
func WriteBench(w io.Writer, l *Loaded) error {
	out := benchfmt.NewWriter(w)
	m := l.Run.Machine
	config := []benchfmt.Config{
		bench("tool", l.Run.Tool), bench("machine", m.Key()), bench("gpu", m.Name), bench("abi", l.Run.ABI),
	}
	for _, c := range l.Cases {
		p := c.Problem
		prefix := fmt.Sprintf("%s/mode=%s/dtype=%s/ranks=%d/hidden=%d/experts=%d/topk=%d/routing=%s/tokens=%d", title(string(p.Op)), p.Mode, p.Dispatch, p.Ranks,
			p.Hidden, p.Experts, p.TopK, benchWord(c.Routing), p.Tokens)
		if p.Precision == ep.Reduced {
			prefix += "/precision=reduced"
		}
		for _, e := range c.Entries {
			if !e.OK() {
				continue
			}
			r := &benchfmt.Result{Config: config, Name: benchfmt.Name(prefix + "/config=" + benchWord(e.benchLabel())), Iters: 1}
			for _, t := range e.Times {
				r.Values = []benchfmt.Value{{Value: math.Round(t*1e12) / 1e3, Unit: "ns/op"}}
				if err := out.Write(r); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func bench(key, value string) benchfmt.Config {
	return benchfmt.Config{Key: key, Value: []byte(strings.Join(strings.Fields(value), " ")), File: true}
}

func (e *Entry) benchLabel() string {
	switch e.Role {
	case record.Default, record.Twin:
		return string(e.Role)
	case record.Peer:
		return e.Config.Kernel
	}
	return e.Key
}

func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// benchWord keeps what separates fields out of names.
func benchWord(s string) string {
	return strings.NewReplacer("/", "_", " ", "_", "=", "-").Replace(s)
}
