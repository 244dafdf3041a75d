package drive

import (
	"encoding/json"
	"testing"

	"github.com/expr-lang/expr"

	"github.com/epbench/epbench/tune/ep"
)

func TestTopology(t *testing.T) {
	accepted := 0
	for _, launched := range []topology{{4, 1, false}, {4, 1, true}, {4, 2, false}, {8, 2, true}} {
		program, err := expr.Compile(launched.condition().Expr, expr.AsBool())
		if err != nil {
			t.Fatal(err)
		}
		for _, ranks := range []int{1, 2, 4, 8} {
			for nodes := 1; nodes <= 8; nodes++ {
				p := ep.Problem{Op: ep.Pair, Ranks: ranks, Nodes: nodes}
				told, err := expr.Run(program, map[string]any{"problem": fieldsOf(t, p)})
				if err != nil {
					t.Fatal(err)
				}
				if told != (launched.check(p) == nil) {
					t.Errorf("%+v: %d ranks on %d nodes: epbench is told %v, the worker says %v", launched, ranks, nodes, told, launched.check(p))
				}
				if told == true {
					accepted++
				}
			}
		}
	}
	if accepted != 1+8+1+4 {
		t.Errorf("%d problems were accepted, want 14", accepted)
	}
}

func fieldsOf(t *testing.T, p ep.Problem) (out map[string]any) {
	t.Helper()
	b, err := json.Marshal(p)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range out {
		if f, ok := v.(float64); ok {
			out[name] = int(f)
		}
	}
	return out
}
