package engines

import (
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/testfile"
)

// readers is filled by `make engine-readers`.
const readers = "../../.readers"

// TestEngineReaders: the engine's own code reads each export.
func TestEngineReaders(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 here")
	}
	deepep, fp8, oneSidedRun := deepEPRun(), deepEPRunAs(normal, "deepep", ep.FP8), deepEPRunAs(oneSided, "flashinfer", ep.BF16)
	const times = `{"dispatch": {"20": {"128": 0.02, "4096": 0.39}, "24": {"128": 0.019, "4096": 0.3}},
		"combine": {"20": {"128": 0.02, "4096": 0.4}, "24": {"128": 0.03, "4096": 0.3}}}`
	for _, c := range []struct {
		engine, format, wheel string
		run                   *reports.Loaded
		want                  string
	}{
		{"sglang", "sglang", "sglang", deepep, `[24, [24, 24, 256], [24, 8, 256]]`},
		{"megatron", "megatron", "megatron_core", deepep, `["moe_deepep_num_sms", 24, ["moe_deepep_num_sms", "moe_hybridep_num_sms"]]`},
		{"aiconfigurator", "aiconfigurator", "aiconfigurator_core", fp8, `{"deepep_ht": ` + times + `}`},
		{"aiconfigurator", "aiconfigurator", "aiconfigurator_core", oneSidedRun, `{"nvlink_one_sided": ` + times + `}`},
		{"plugin", "deepep-shim", "", deepep, `[[24, 8, 256], [24, 24, 256], "own"]`},
	} {
		t.Run(c.engine, func(t *testing.T) {
			if found, _ := filepath.Glob(filepath.Join(readers, c.wheel+"-*.whl")); c.wheel != "" && len(found) == 0 {
				t.Skip("no wheel of the engine here; make engine-readers fetches it")
			}
			file := filepath.Join(t.TempDir(), "export")
			e, _ := Find(c.format)
			export, err := e.Write(Input{Run: c.run})
			if err != nil {
				t.Fatal(err)
			}
			testfile.Write(t, file, export.Data)
			out, err := exec.Command(python, "-B", "testdata/readers.py", c.engine, readers, file).Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, err.(*exec.ExitError).Stderr)
			}
			got, want := testfile.JSON[any](t, out), testfile.JSON[any](t, []byte(c.want))
			if !reflect.DeepEqual(rounded(got), want) {
				t.Errorf("read as %s\nwant %s", out, c.want)
			}
		})
	}
}

func rounded(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k := range x {
			x[k] = rounded(x[k])
		}
	case float64:
		return float64(int(x*1e6+0.5)) / 1e6
	}
	return v
}
