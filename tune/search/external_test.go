package search

import (
	"context"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// steadyMachine is an Evaluator on which point i takes 1+i seconds.
type steadyMachine struct{ round int }

func (m *steadyMachine) Spent() time.Duration { return 0 }

func (m *steadyMachine) Measure(_ context.Context, _ record.Stage, live []int, rounds int) (out []Sample, err error) {
	for range rounds {
		for _, i := range live {
			out = append(out, Sample{Point: i, Round: m.round, Seconds: float64(1 + i)})
		}
		m.round++
	}
	return out, nil
}

// tryExternal lets an external strategy measure 8 of 24 configs.
func tryExternal(t *testing.T, command string) (*State, error) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3: ", err)
	}
	grid := Grid{Kernel: "k", Axes: []Axis{{Name: "a", Values: []ep.Value{"1", "2", "3", "4", "5"}}, {Name: "b", Values: []ep.Value{"1", "2", "3", "4", "5"}}},
		Rules: []Rule{func(c ep.Config) string {
			if c.Int("a")+c.Int("b") == 10 {
				return "too many"
			}
			return ""
		}}}
	space := newSpace(t, grid)
	strategy := mustParse(t, "exec:"+command)
	s := NewState(space, &steadyMachine{}, Budget{Evaluations: 8}, 23, nil, rand.New(rand.NewPCG(1, 2)))
	return s, strategy(t.Context(), s)
}

func TestExternalStrategy(t *testing.T) {
	first, err := tryExternal(t, "python3 ../../examples/search/random_search.py")
	if err != nil || first.Tried() != 8 {
		t.Fatalf("%d configs tried, want 8: %v", first.Tried(), err)
	}
	again, err := tryExternal(t, "python3 ../../examples/search/random_search.py")
	if err != nil {
		t.Fatal(err)
	}
	for k, i := range first.Measured() {
		if again.Measured()[k] != i {
			t.Errorf("the second search tried %v, the first %v", again.Measured(), first.Measured())
			break
		}
	}
}

func TestStrangeExternalStrategies(t *testing.T) {
	defer func(wait, read time.Duration) { externalWait, externalRead = wait, read }(externalWait, externalRead)
	for how, want := range map[string]string{
		"die":      `exit status 3; it said: "no luck today"`,
		"nonsense": `its line "hello" is not`,
		"field":    `unknown field "answer"`,
		"illegal":  "100 lines in a row",
		"long":     "token too long",
		"hang":     "it wrote no line for",
		"child":    "it wrote no line for",
		"orphan":   "it wrote no line for",
		"deaf":     "it did not read a line of",
	} {
		externalWait, externalRead = time.Minute, time.Minute
		switch how {
		case "hang", "child", "orphan":
			externalWait = 10 * time.Millisecond
		case "deaf":
			externalRead = 10 * time.Millisecond
		}
		_, err := tryExternal(t, "python3 testdata/strange.py "+how)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", how, err, want)
		}
	}
	if _, err := tryExternal(t, "no-such-program-of-ours"); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("a missing program: got %v", err)
	}
	if _, err := ParseStrategy("exec: "); err == nil {
		t.Error("ParseStrategy accepts exec: without a command")
	}
}

// TestExternalAnswers: no config is measured twice.
func TestExternalAnswers(t *testing.T) {
	s, err := tryExternal(t, "python3 ../../examples/search/random_search.py")
	if err != nil {
		t.Fatal(err)
	}
	tried := s.Tried()
	outside := s.Space.Config(0).With("a", "9")
	tell, err := s.answer(t.Context(), []ep.Config{s.Space.Config(s.Measured()[0]), outside})
	if err != nil || len(tell.Results) != 2 || tell.Results[0].Ratio == 0 || !strings.Contains(tell.Results[1].Error, "not in the space") || s.Tried() != tried {
		t.Errorf("got %+v, %v", tell, err)
	}
}
