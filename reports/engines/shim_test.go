package engines

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/testfile"
)

func TestShim(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 here")
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{"shim.py": write(t, "deepep-shim", nil).Data, "try.py": []byte(shimTry)} {
		testfile.Write(t, filepath.Join(dir, name), data)
	}
	cmd := exec.Command(python, "-B", "try.py")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// shimTry is a Python program with stand-ins for the classes of deep_ep.
const shimTry = `
import shim

class Config(tuple):
    def __new__(cls, *args):
        return super().__new__(cls, args)

class Buffer:
    num_sms = 20
    @staticmethod
    def set_num_sms(n): Buffer.num_sms = n
    @staticmethod
    def get_dispatch_config(n): return "own", n
    @staticmethod
    def get_combine_config(n): return "own", n
    def get_dispatch_layout(self, topk_idx, num_experts): return num_experts
    def dispatch(self, x, config=None): return self.get_dispatch_config(2) if config is None else config
    def combine(self, x, handle, config=None): return self.get_combine_config(2) if config is None else config

class Rows:
    def __init__(self, n): self.shape = (n, 8)

class deep_ep: pass
deep_ep.Buffer, deep_ep.Config = Buffer, Config
shim.register(deep_ep)
shim.register(deep_ep)
b = Buffer()
assert Buffer.get_dispatch_config(2) == (24, 8, 256), Buffer.get_dispatch_config(2)
assert b.dispatch(Rows(100)) == (24, 24, 256)
assert Buffer.get_combine_config(2) == (24, 8, 256)
assert b.get_dispatch_layout(Rows(4096), 256) == 256
assert Buffer.get_combine_config(2) == (24, 24, 256)
assert b.dispatch((Rows(724), None)) == (24, 24, 256) and b.dispatch(Rows(725)) == (24, 8, 256)
intranode, internode = (0, 0, 0, 0, Rows(100), 0), (Rows(4096),) + (0,) * 9
assert b.combine(Rows(300), intranode) == (24, 8, 256) and b.combine(Rows(300), internode) == (24, 24, 256)
# All rows have the same SMs and receive buffers. Ranks of one call may use different rows.
assert len({(sms, recv) for _, d, c in shim.ROWS for sms, _, recv in (d, c)}) == 1
assert b.dispatch(Rows(1), config="mine") == "mine"
assert Buffer.get_dispatch_config(8) == ("own", 8)
Buffer.set_num_sms(32)
assert Buffer.get_dispatch_config(2)[0] == 24 and Buffer.num_sms == 32
`

func TestShimHasOneShape(t *testing.T) {
	e, _ := Find("deepep-shim")
	for _, c := range []struct {
		mix  map[int]float64
		rows string
	}{
		{nil, "(724, (24, 24, 256), (24, 8, 256)),\n    (4096, (24, 8, 256), (24, 24, 256)),"},
		{map[int]float64{128: 3, 4096: 1}, "(724, (20, 8, 256), (20, 8, 256)),\n    (4096, (20, 24, 256), (20, 8, 256)),"}, // 24 SMs lose 22.5 % at 128 tokens, which have weight 3
	} {
		if out, err := e.Write(Input{deepEPRun(), c.mix}); err != nil || !strings.Contains(string(out.Data), c.rows) {
			t.Errorf("mix %v: %v\n%s", c.mix, err, out.Data)
		}
	}
	l := deepEPRun()
	l.Results = slices.DeleteFunc(l.Results, func(r record.Result) bool { return r.Problem.Tokens == 128 && r.Config.Int("sms") == 24 })
	for i := range l.Results {
		if l.Results[i].Problem.Tokens == 4096 && l.Results[i].Config.Int("sms") == 24 {
			l.Results[i].Config = l.Results[i].Config.With("recv", "512")
		}
	}
	l.Cases = reports.Cases(l.Run, l.Results)
	out, err := e.Write(Input{l, map[int]float64{128: 0.01, 4096: 1}})
	if want := "warning: 128 tokens, uniform: no config with 24 SMs and receive buffers of 512 and 512 was measured; the nearest row applies"; err != nil || !slices.Contains(out.Notes, want) || !strings.Contains(string(out.Data), "ROWS = (\n    (4096, (24, 8, 512), (24, 24, 512)),\n)") {
		t.Errorf("%v, %q\n%s", err, out.Notes, out.Data)
	}
}
