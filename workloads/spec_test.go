package workloads

import (
	"strings"
	"testing"
)

func TestParseCanonical(t *testing.T) {
	for in, want := range map[string]string{
		"uniform": "uniform", "zipf": "zipf:1.0", "zipf:1": "zipf:1.0", "zipf:a=1.50": "zipf:1.5", "zipf:1e-1": "zipf:0.1",
		"grouped": "grouped:8:4", "grouped:4": "grouped:4:4", "khot:16": "khot:16:0.9", "powerlaw": "powerlaw:1.01",
		"powerlaw:1.2:50": "powerlaw:1.2:50.0", "lognormal:gini=0.250": "lognormal:gini=0.25", "ragged": "ragged:0",
		"ragged:0:128": "ragged:0:128", "masked": "masked:0.1", "all2one": "all2one:0", "trace:a/b:c.npy": "trace:a/b:c.npy",
		"uniform+softmax": "uniform", "uniform+sigmoid+masked:0.2": "uniform+masked:0.2+sigmoid",
		"zipf+eplb+drift:8": "zipf:1.0+drift:8.0:0+eplb:32", "masked+ragged:1": "masked:0.1+ragged:1",
	} {
		if got := mustParse(t, in).Spec(); got != want {
			t.Errorf("%s: spelled %s, want %s", in, got, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "unknown name \"\"",
		"zip":                    "did you mean zipf?",
		"unifrom":                "did you mean uniform?",
		"zipf:":                  "a: \"\" is not a number",
		"zipf:x":                 "a: \"x\" is not a number",
		"zipf:-1":                "a: -1 is outside 0.0 to 8.0",
		"zipf:NaN":               "outside",
		"zipf:1:2":               "2 arguments were given; it takes at most 1",
		"zipf:gini=2":            "gini: 2 is outside 0.01 to 0.95",
		"zipf:gin=0.2":           "unknown argument \"gin\"; use a, gini, maxmean, effective",
		"uniform:1":              "takes at most 0",
		"khot:1.5":               "k: \"1.5\" is not a whole number",
		"grouped:4:8":            "t: 8 is above g, 4",
		"ragged:9:3":             "max: 3 is below min, 9",
		"trace":                  "write trace:FILE",
		"trace:":                 "write trace:FILE",
		"uniform+":               "unknown name \"\"",
		"uniform+zipf:1":         "unknown name \"zipf\"",
		"uniform+eplb+eplb":      "eplb is given twice",
		"masked+masked:0.3":      "masked is given twice",
		"uniform+epbl":           "did you mean eplb?",
		strings.Repeat("a", 2e3): "longer than",
	} {
		_, err := Parse(in)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40s: error %v, want one line with %q", in, err, want)
		}
	}
}

func TestProblemErrors(t *testing.T) {
	for _, c := range []struct {
		spec                         string
		ranks, experts, topK, tokens int
		want                         string
	}{
		{"uniform", 3, 8, 2, 4, "experts: 8 is not a multiple of 3 ranks"},
		{"uniform", 2, 8, 9, 4, "topk: 9 is outside 1 to 8"},
		{"uniform", 1024, 1024, 32, 1 << 14, "selections, the bound is"},
		{"grouped:3:2", 2, 8, 2, 4, "8 experts do not divide into 3 groups"},
		{"grouped:4:1", 2, 8, 3, 4, "top-3 does not fit 1 groups of 2 experts"},
		{"khot:9:0.5", 2, 8, 2, 4, "k is 9, the problem has 8 experts"},
		{"khot:1:0.9", 2, 8, 2, 4, "use k of at least 2"},
		{"khot:7:0.1", 2, 8, 4, 4, "the 1 other experts cannot take 3.6 of the 4 selections"},
		{"one:0.1", 1, 2, 2, 4, "f must be at least 1"},
		{"hotrank:3", 2, 8, 2, 4, "r is 3, top-2 of 8 experts on 2 ranks allows at most 2"},
		{"local", 4, 8, 3, 4, "a rank has 2"},
		{"remote", 1, 8, 3, 4, "the other ranks have 0"},
		{"all2one:2", 2, 8, 2, 4, "rank is 2, the problem has 2 ranks"},
		{"all2one", 4, 8, 3, 4, "a rank has 2"},
		{"ragged:0:9", 2, 8, 2, 4, "max is 9, the problem has 4 tokens per rank"},
		{"ragged:5", 2, 8, 2, 4, "min is 5, the problem has 4 tokens per rank"},
		{"uniform+eplb:7", 2, 8, 2, 4, "7 of the problem's 8 experts are replicas"},
		{"lognormal:effective=100", 2, 8, 2, 4, "effective: 100 is out of reach here"},
		{"trace:no/such.npy", 2, 8, 2, 4, "no/such.npy"},
	} {
		_, err := New(mustParse(t, c.spec), shape(c.ranks, c.experts, c.topK, c.tokens), 1)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line with %q", c.spec, err, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range append(plainSpecs, solvedSpecs...) {
		f.Add(s)
	}
	f.Add("zipf:a=1e300+drift:::")
	f.Fuzz(func(t *testing.T, s string) {
		d, err := Parse(s)
		if err != nil {
			return
		}
		again, err := Parse(d.Spec())
		if err != nil || again.Spec() != d.Spec() {
			t.Fatalf("%q is spelled %q, which parses to %v, %v", s, d.Spec(), again, err)
		}
	})
}
