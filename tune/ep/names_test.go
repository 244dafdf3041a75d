package ep

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestNamesAreReadAndRefused(t *testing.T) {
	check := func(list string, parse func(string) error, words ...string) {
		for _, w := range words {
			if err := parse(w); err != nil {
				t.Errorf("%s: %v", list, err)
			}
		}
		if err := parse("nosuch"); err == nil || !strings.Contains(err.Error(), `unknown "nosuch", use `) || !strings.Contains(err.Error(), words[len(words)-1]) {
			t.Errorf("%s: nosuch gives %v", list, err)
		}
	}
	check("op", func(s string) error { _, err := ParseOp(s); return err }, "dispatch", "combine", "pair")
	check("mode", func(s string) error { _, err := ParseMode(s); return err }, "graph", "eager", "cold")
	check("dtype", func(s string) error { _, err := ParseDType(s); return err }, "bf16", "fp8", "mxfp4", "nvfp4")
	check("routing", func(s string) error { _, err := ParseClass(s); return err }, "even", "skewed", "concentrated", "hot-rank", "all")
	check("precision", func(s string) error { _, err := ParsePrecision(s); return err }, "full", "reduced")
}

func TestClassIndex(t *testing.T) {
	for i, c := range Classes() {
		if c.Index() != i {
			t.Errorf("%s is at %d, not %d", c, c.Index(), i)
		}
	}
	if got := Class("nosuch").Index(); got != AllRoutings.Index() {
		t.Errorf("the index of an unknown class is %d", got)
	}
	if first := Classes(); &first[0] == &Classes()[0] {
		t.Error("callers share one list of classes")
	}
}

func TestPrecisionIsAWordInJSON(t *testing.T) {
	for _, p := range Precisions() {
		text, err := json.Marshal(p)
		if err != nil || string(text) != `"`+p.String()+`"` {
			t.Errorf("%v is written %s, %v", p, text, err)
		}
		var back Precision
		if err := json.Unmarshal(text, &back); err != nil || back != p {
			t.Errorf("%s reads as %v, %v", text, back, err)
		}
	}
	for _, bad := range []Precision{-1, 2} {
		if _, err := json.Marshal(bad); err == nil || !strings.HasPrefix(bad.String(), "Precision(") {
			t.Errorf("%d is written as %s", int(bad), bad)
		}
	}
	if Full != 0 {
		t.Error("the zero value of Precision is not Full")
	}
}

func TestMachineKey(t *testing.T) {
	m := Machine{Backend: "cuda", Name: "H200", PCIID: "10de:2335", Arch: "sm_90", SMs: 132, Memory: 141<<30 + 5, GPUs: 8, Link: "nvlink", Driver: "580", CUDA: "13.0"}
	if got := m.Key(); got != "cuda/10de:2335/sm_90/sms=132/mem=141g/link=nvlink" {
		t.Errorf("key %s", got)
	}
	if err := m.Validate(); err != nil {
		t.Error(err)
	}
	if err := (Machine{Backend: "cpu"}).Validate(); err != nil {
		t.Error(err)
	}
	for want, edit := range map[string]func(*Machine){
		"backend: ": func(m *Machine) { m.Backend = "" }, "sms: ": func(m *Machine) { m.SMs = -1 },
		"memory_bytes: ": func(m *Machine) { m.Memory = -1 }, "gpus: ": func(m *Machine) { m.GPUs = -1 },
	} {
		bad := m
		edit(&bad)
		if err := bad.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", bad, err, want)
		}
	}
}
