package ep

import (
	"encoding/json"
	"strings"
	"testing"
)

func besideProblem() Problem {
	return Problem{Op: Dispatch, Mode: Graph, Ranks: 2, Nodes: 1, Hidden: 7168, Experts: 256, TopK: 8,
		Tokens: 1024, MaxTokens: 1024, Dispatch: FP8, Combine: BF16}
}

func TestProductSpelling(t *testing.T) {
	for in, want := range map[string]string{
		"gemm": "gemm", "copy": "copy", "step": "step",
		"gemm:1,8,16":               "gemm:1,8,16,bf16,1",
		"gemm:3,32,64,fp8":          "gemm:3,32,64,fp8,1",
		"gemm:64,4096,7168,fp8,128": "gemm:64,4096,7168,fp8,128",
		"step:64,512,256,bf16,4":    "step:64,512,256,bf16,4",
	} {
		p, err := ParseProduct(in)
		if err != nil || p.String() != want {
			t.Errorf("%s: %s, %v; want %s", in, p, err, want)
			continue
		}
		if again, err := ParseProduct(p.String()); err != nil || again != p {
			t.Errorf("%s: read back as %+v, %v", p, again, err)
		}
	}
}

func TestProductIsRefused(t *testing.T) {
	for in, want := range map[string]string{
		"":                     "none of gemm",
		"gems":                 "none of gemm",
		"copy:1,2,3":           "none of gemm",
		"gemm:":                "needs sizes",
		"gemm:1,2":             "needs sizes",
		"gemm:1,8,8,bf16,1,1":  "needs sizes",
		"gemm:x,8,8":           `"x" is not an integer`,
		"gemm:0,8,8":           "M: 0 is outside 1 to",
		"gemm:1,12,8":          "N: 12 is not a multiple of 8",
		"gemm:1,16,24,fp8":     "K: 24 is not a multiple of 16",
		"gemm:1,16,16,nvfp4":   "use bf16 or fp8",
		"gemm:1,8,8,bf16,5000": "groups: 5000 is outside 1 to 4096",
		"gemm:1,8,99999999":    "K: 99999999 is outside",
	} {
		if _, err := ParseProduct(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}

func TestWithProduct(t *testing.T) {
	p := besideProblem().WithProduct(Product{Kind: Gemm}, 2048, BesideProduct)
	if p.Beside != "gemm:64,4096,7168,fp8,128" || p.Objective != BesideProduct {
		t.Fatalf("product %s, objective %s", p.Beside, p.Objective)
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	if q := p.AtTokens(32, 64); q.Beside != "gemm:16,4096,7168,fp8,128" || q.Tokens != 32 || q.MaxTokens != 64 {
		t.Errorf("at 32 tokens: %+v", q)
	}
	if a, b := p.Shape(), p.AtTokens(4096, 4096).Shape(); a != b {
		t.Errorf("shapes differ: %s, %s", a.Key(), b.Key())
	}
	p.Dispatch = BF16
	if q := p.WithProduct(Product{Kind: Gemm}, 2048, Alone); q.Beside != "gemm:64,4096,7168,bf16,128" {
		t.Error(q.Beside)
	}
	own, _ := ParseProduct("gemm:100,16,16,bf16")
	if q := p.WithProduct(own, 2048, BesideProduct).AtTokens(1, 1); q.Beside != "gemm:100,16,16,bf16,1" {
		t.Error(q.Beside)
	}
}

func TestBesideIsValidated(t *testing.T) {
	for want, change := range map[string]func(*Problem){
		"is not spelled in full": func(p *Problem) { p.Beside = "gemm:1,16,16" },
		"has no sizes":           func(p *Problem) { p.Beside = "gemm" },
		"mode: cold":             func(p *Problem) { p.Mode = Cold },
		"use op pair":            func(p *Problem) { p.Beside = "step:1,16,16,bf16,1" },
		"neither ep.Alone":       func(p *Problem) { p.Objective = 7 },
		"none of gemm":           func(p *Problem) { p.Beside = "nonsense" },
	} {
		p := besideProblem()
		p.Beside, p.Objective = "copy", BesideProduct
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestBesideInKeyAndJSON(t *testing.T) {
	p := besideProblem()
	text, _ := json.Marshal(p)
	if strings.Contains(p.Key(), "beside") || strings.Contains(string(text), "beside") {
		t.Errorf("without a product: key %s, JSON %s", p.Key(), text)
	}
	a, b := p, p
	a.Beside, b.Beside, b.Objective = "copy", "copy", BesideProduct
	if a.Key() == p.Key() || a.Key() == b.Key() {
		t.Errorf("with a product: keys %s and %s", a.Key(), b.Key())
	}
	text, _ = json.Marshal(b)
	var back Problem
	if err := json.Unmarshal(text, &back); err != nil || back != b || !strings.Contains(string(text), `"objective":"beside"`) {
		t.Errorf("%s, %+v, %v", text, back, err)
	}
}

func TestBesideRounds(t *testing.T) {
	one := [][]float64{{1, 2}}
	a := &BesideRounds{Call: one, Product: [][]float64{{3, 5}}, Both: [][]float64{{4, 4}}, CallIn: one, ProductIn: one, Done: one, Amount: "a"}
	if err := a.Validate(1, 2); err != nil {
		t.Fatal(err)
	}
	if c := a.Seconds(BesideProduct); c[0][0] != 1 || c[0][1] != LeastCost {
		t.Errorf("cost %v", c)
	}
	if s := a.Seconds(Alone); s[0][1] != 2 {
		t.Errorf("alone %v", s)
	}
	var sum BesideRounds
	sum.Append(a)
	sum.Append(a)
	if err := sum.Validate(2, 2); err != nil || sum.Amount != "a" {
		t.Errorf("%+v, %v", sum, err)
	}
	if err := sum.Validate(2, 3); err == nil || !strings.Contains(err.Error(), "beside.call: 2 ranks in round 0, want 3") {
		t.Error(err)
	}
	sum.Done[0] = []float64{-1, 0}
	if err := sum.Validate(2, 2); err == nil || !strings.Contains(err.Error(), "beside.done: -1 in round 0") {
		t.Error(err)
	}
}

func TestObjectiveWords(t *testing.T) {
	for _, o := range Objectives() {
		if back, err := ParseObjective(o.String()); err != nil || back != o {
			t.Errorf("%s: %v, %v", o, back, err)
		}
	}
	if _, err := ParseObjective("both"); err == nil || !strings.Contains(err.Error(), "use one of alone, beside") {
		t.Error(err)
	}
	if _, err := Objective(5).MarshalText(); err == nil {
		t.Error("Objective(5), which has no name, was written")
	}
}
