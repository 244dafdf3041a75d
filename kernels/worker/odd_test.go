package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// TestOddAnswers: text between messages is printed. An unreadable answer is a crash of its candidate.
func TestOddAnswers(t *testing.T) {
	for _, c := range []struct {
		odd, listen string
		said        string // text that is printed, or stands in the failure's reason
		status      ep.Status
	}{
		{odd: "log", said: `{"level": "info", "id": 1} {} {"request": {"jsonrpc": "2.0", "id": 1}}`},
		{odd: "glued", said: "loading... {} of 2"},
		{odd: "garbage", said: "Segmentation fault"},
		{odd: "malformed", said: "run: the answer cannot be read: json: cannot unmarshal string", status: ep.Crash},
		{odd: "malformed", listen: Loopback, said: "run: the answer cannot be read: json: cannot unmarshal string", status: ep.Crash},
		{odd: "garbage", listen: Loopback, said: "rank 0 of 1 (host h, pid", status: ep.Crash},
		{odd: "garbage", listen: Loopback, said: "sent text that is not a message", status: ep.Crash},
	} {
		t.Run(c.odd+" "+c.listen, func(t *testing.T) {
			t.Setenv("EPBENCH_TEST_ODD", c.odd)
			said := &heard{}
			b, err := Open(t.Context(), Command{Argv: []string{python(t), "testdata/odd.py"}, Listen: c.listen, Said: said.line}, DefaultLimits(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			b.limits.Round = 20 * time.Second
			s := openWorkload(t, b, ep.Dispatch)
			_, err = s.Run(t.Context(), defaultOf(t, b, ep.Dispatch), kernels.RunSpec{Rounds: 1, Fold: 1})
			text := strings.ReplaceAll(said.text(), "\n", " ")
			var f *kernels.Failure
			if c.status != "" {
				if !errors.As(err, &f) || f.Status != c.status {
					t.Fatalf("%v, want %s", err, c.status)
				}
				text = f.Reason
			} else if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(text, c.said) {
				t.Errorf("%q, want %q", text, c.said)
			}
		})
	}
}

// TestDeaf: a worker no longer reads. The error says how its process ended.
func TestDeaf(t *testing.T) {
	w := Welcome{Protocol: Protocol, Machine: ep.Machine{Backend: "b"}, Kernels: []KernelDecl{{Name: "k", Op: ep.Dispatch}}}
	hello, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "result": w})
	if err != nil {
		t.Fatal(err)
	}
	deaf := filepath.Join(t.TempDir(), "deaf")
	shell := fmt.Sprintf("read x; exec <&-; echo '%s'; echo > %s; sleep 0.2; echo out of memory >&2; exit 3", hello, deaf)
	b, err := Open(t.Context(), Command{Argv: []string{"sh", "-c", shell}}, DefaultLimits(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	awaitFile(deaf)
	_, err = b.Empty(t.Context())
	if err == nil || !strings.Contains(err.Error(), "exit status 3; it printed: out of memory") {
		t.Errorf("%v", err)
	}
}

func TestPresentable(t *testing.T) {
	for text, want := range map[string]string{
		"  NCCL\tversion\r2.27 ":               "NCCL version 2.27",
		"\x1b[31mred\x07\xff\u202e":            "[31mred",
		"\x00\x01":                             "",
		strings.Repeat("x", saidBytes+1):       strings.Repeat("x", saidBytes) + "... (1001 bytes)",
		strings.Repeat("x", saidBytes-1) + "é": strings.Repeat("x", saidBytes-1) + "... (1001 bytes)",
	} {
		if got := shownText(text); got != want {
			t.Errorf("%.40q: %q, want %q", text, got, want)
		}
	}
}

// TestHelloRefusals: the error names the field that a config or a table cannot hold.
func TestHelloRefusals(t *testing.T) {
	param := func(name string, values ...ep.Value) kernels.Param {
		p := kernels.Param{Name: name, Values: values}
		if len(values) > 0 {
			p.Default = values[0]
		}
		return p
	}
	for _, c := range []struct {
		want string
		decl KernelDecl
	}{
		{"", KernelDecl{Name: "k_1", Params: []kernels.Param{param("p", "1", "a.b-c")}}},
		{"a + joins", KernelDecl{Name: "k+l"}},
		{"a name is 1 to 64", KernelDecl{Name: "k:l"}},
		{"a name is 1 to 64", KernelDecl{}},
		{"values is empty", KernelDecl{Name: "k", Params: []kernels.Param{param("p")}}},
		{"declared twice", KernelDecl{Name: "k", Params: []kernels.Param{param("p", "1"), param("p", "1")}}},
		{`param "p=q"`, KernelDecl{Name: "k", Params: []kernels.Param{param("p=q", "1")}}},
		{`value "1,2"`, KernelDecl{Name: "k", Params: []kernels.Param{param("p", "1", "1,2")}}},
		{`value ""`, KernelDecl{Name: "k", Params: []kernels.Param{{Name: "p", Values: []ep.Value{"1"}}}}},
	} {
		c.decl.Op = ep.Dispatch
		_, err := c.decl.kernel()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.decl, err, c.want)
		}
	}
	twice := Welcome{Protocol: Protocol, Kernels: []KernelDecl{{Name: "k", Op: ep.Dispatch}, {Name: "k", Op: ep.Combine}}}
	if err := checkWelcome(twice, Welcome{}); err == nil || !strings.Contains(err.Error(), "machine.backend") {
		t.Errorf("no machine: %v", err)
	}
	twice.Machine.Backend = "b"
	if err := checkWelcome(twice, Welcome{}); err != nil {
		t.Errorf("one name for both ops: %v", err)
	}
	twice.Kernels[1].Op = ep.Dispatch
	if err := checkWelcome(twice, Welcome{}); err == nil || !strings.Contains(err.Error(), `kernel "k": declared twice for dispatch`) {
		t.Errorf("one name twice: %v", err)
	}
}
