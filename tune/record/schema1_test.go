package record

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

const problem1 = `{"op":"combine","mode":"graph","ranks":4,"nodes":1,"hidden":512,"experts":32,"top_k":4,"tokens":16,"max_tokens":16,"dispatch":"bf16","combine":"bf16","results":"any"}`

const config1 = `{"kernel":"direct","values":{"combine.sms":16,"dispatch.sms":8,"threads":256}}`

const default1 = `{"kernel":"direct","values":{"combine.sms":4,"dispatch.sms":8,"threads":128}}`

// old1 is a run of schema 1 with one outcome.
const old1 = `{"schema":1,"tool":"0.1","command":["epbench"],"policy":"median; band=0.05 sample>=5e-05s","machine":{},"aa":[{"problem":"p","routing":"uniform","ratio":1,"spread":0.004,"rounds":20}],
"outcomes":[{"problem":` + problem1 + `,"routing":"uniform","class":"even","verdict":"faster","reason":"why","config":` + config1 + `,"default":` + default1 + `,
"clock":"span","median":1e-5,"p10":9e-6,"p90":2e-5,"default_median":2e-5,"rounds":25,"gain":1.5,"gain_lo":1.25,"gain_hi":1.75,"aa":0.004,
"ties":3,"evaluations":40,"legal":50,"bytes":1024,"imbalance":1.5,"quarantined":2,"max_err":0.001}]}`

func TestSchema1Run(t *testing.T) {
	run, err := decodeRun([]byte(old1))
	if err != nil {
		t.Fatal(err)
	}
	if run.Schema != Schema || run.Read != 1 || run.Band != 0.05 || len(run.Searches) != 1 || run.AA[0].Spread != 0.004 {
		t.Fatalf("%+v", run)
	}
	s := run.Searches[0]
	if s.Problem.Precision != ep.Reduced || s.Class != ep.Even || s.Routing != "uniform" || s.Clock != "span" || s.MaxErr != 0.001 {
		t.Errorf("%+v", s)
	}
	if s.Times != (Times{1e-5, 9e-6, 2e-5}) || s.DefaultTime.Median != 2e-5 || s.Tried != 40 || s.Legal != 50 || s.Ties != 3 || s.Failed != 2 || s.Bytes != 1024 || s.Imbalance != 1.5 {
		t.Errorf("%+v", s)
	}
	d := s.Decision
	if d.Band != (Band{0.05, 0.004}) || d.Rounds != 25 || d.Reason != "why" || d.Gain != (Interval{1.5, 1.25, 1.75}) || d.ChallengerGain != d.Gain {
		t.Errorf("%+v", d)
	}
	if d.Config.Int("combine.sms") != 16 || d.Default.Int("combine.sms") != 4 || d.Challenger.Key() != d.Config.Key() {
		t.Errorf("%+v", d)
	}
}

// TestSchema1Verdicts: each word of schema 1 as a verdict and a cause, and which
// config it decided for.
func TestSchema1Verdicts(t *testing.T) {
	for _, c := range []struct {
		word    string
		config  string
		verdict Verdict
		cause   Cause
		keeps   bool
	}{
		{"faster", config1, Faster, "", false},
		{"incumbent", config1, Faster, "", false},
		{"slower", config1, Slower, "", false}, // of bench
		{"tie", config1, Undecided, "", false},
		{"default", default1, Same, "", true},
		{"host-bound", default1, Same, HostBound, true},
		{"noisy", config1, Undecided, Noisy, true},
		{"failed", config1, Undecided, Failed, false},
		{"failed", default1, Undecided, NoDefault, true},
		{"failed", `{"kernel":"","values":null}`, Undecided, NoDefault, true},
	} {
		run, err := decodeRun([]byte(strings.NewReplacer(`"verdict":"faster"`, `"verdict":"`+c.word+`"`, `"config":`+config1, `"config":`+c.config).Replace(old1)))
		if err != nil {
			t.Errorf("%s: %v", c.word, err)
			continue
		}
		s := run.Searches[0]
		if d := s.Decision; d.Verdict != c.verdict || d.Cause != c.cause || d.KeepsDefault() != c.keeps || d.Config.IsDefault() {
			t.Errorf("%s: %s, cause %q, config %s", c.word, d.Verdict, d.Cause, d.Config.Key())
		}
		if noisy := c.cause == Noisy; noisy != (s.Decision.Gain == One) && c.config == config1 || noisy && (s.Times != s.DefaultTime || s.Decision.ChallengerGain.Mid != 1.5) {
			t.Errorf("%s: %+v", c.word, s)
		}
	}
	if _, err := decodeRun([]byte(strings.Replace(old1, `"verdict":"faster"`, `"verdict":"great"`, 1))); err == nil || !strings.Contains(err.Error(), "great") {
		t.Errorf("an unknown verdict: %v", err)
	}
	if _, err := decodeRun([]byte(strings.Replace(old1, `"ties"`, `"tyes"`, 1))); err == nil || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("an unknown field: %v", err)
	}
}

func TestSchema1Bands(t *testing.T) {
	for policy, want := range map[string]float64{"band=0.1": 0.1, "x; band=1e-2 y": 0.01, "broadband=5": 0, "": 0, "band=.": 0} {
		if got := bandOf(policy); got != want {
			t.Errorf("%q: band %v, want %v", policy, got, want)
		}
	}
}

func TestSchema1Trials(t *testing.T) {
	line := `{"schema":1,"seq":0,"time":"2026-01-02T03:04:05Z","problem":` + problem1 + `,"routing":"uniform","seed":1,"config":` + config1 +
		`,"role":"candidate","stage":"finals","block":0,"status":"ok","clock":"span","fold":1,"round0":0,"max_err":0,"checked":1,"wall":1,"end":true,"seconds":[[1e-5,2e-5],[3e-5,1e-5]]}` + "\n"
	got, _, err := ReadAll(strings.NewReader(line))
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	r := got[0]
	if r.Schema != Schema || r.Problem.Precision != ep.Reduced || r.Cost != (ep.Cost{SMs: 16, Threads: 256}) || !reflect.DeepEqual(r.Rounds(), []float64{2e-5, 3e-5}) {
		t.Errorf("%+v", r)
	}
	if _, _, err := ReadAll(strings.NewReader(strings.Replace(line, `"results"`, `"precision"`, 1))); err == nil {
		t.Error("a precision of schema 1 called any is accepted")
	}
}

func TestSchema1IsNotGoneOnWith(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, RunFile), []byte(old1), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, _, _, err := OpenDir(dir); !errors.Is(err, errSchema1) {
		t.Errorf("opened with %v", err)
	}
	if _, _, _, _, err := OpenDir(dir); !errors.Is(err, errSchema1) {
		t.Errorf("the refusal left a lock: %v", err)
	}
}

// TestArchiveIsRead reads every run of the archive, from which the embedded
// tables are made, and compares the decisions with what the files say.
func TestArchiveIsRead(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 160 MB")
	}
	archives, _ := filepath.Glob("../../testdata/archive/h200-*.tar.xz") // of schema 1; later ones name the ranks
	if _, err := exec.LookPath("xz"); err != nil || len(archives) == 0 {
		t.Skipf("%d archives, %v", len(archives), err)
	}
	runs, trials, verdicts := 0, 0, map[Verdict]int{}
	for _, path := range archives {
		eachFile(t, path, func(name string, r io.Reader) error {
			switch filepath.Base(name) {
			case RunFile:
				runs++
				b, err := io.ReadAll(r)
				if err == nil {
					err = sameAsWritten(b, verdicts)
				}
				return err
			case TrialsFile:
				results, _, err := ReadAll(r)
				for _, r := range results {
					if r.Cost.SMs == 0 && r.Status == ep.OK {
						return fmt.Errorf("%s costs no SMs", r.Config.Key())
					}
				}
				trials += len(results)
				return err
			}
			return nil
		})
	}
	if runs != 126 || trials < 100_000 || verdicts[Faster] != 3711 || verdicts[Same] != 28 || verdicts[Undecided] != 83 {
		t.Errorf("%d runs, %d trials, verdicts %v", runs, trials, verdicts)
	}
}

// eachFile walks an archive.
func eachFile(t *testing.T, path string, do func(name string, r io.Reader) error) {
	t.Helper()
	xz := exec.Command("xz", "-dc", path)
	out, err := xz.StdoutPipe()
	if err == nil {
		err = xz.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = xz.Process.Kill() // else it waits to write, and Wait for it, when the test stops early
		xz.Wait()
	}()
	for in := tar.NewReader(out); ; {
		h, err := in.Next()
		if err == io.EOF {
			return
		}
		if err == nil {
			err = do(h.Name, in)
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
}

// sameAsWritten compares a run with its text, read without the types of this
// package.
func sameAsWritten(b []byte, verdicts map[Verdict]int) error {
	run, err := decodeRun(b)
	if err != nil {
		return err
	}
	var raw struct {
		Outcomes []map[string]any
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	if len(raw.Outcomes) != len(run.Searches) || run.Band != 0.01 {
		return fmt.Errorf("%d searches of %d, band %v", len(run.Searches), len(raw.Outcomes), run.Band)
	}
	for i, s := range run.Searches {
		o, d := raw.Outcomes[i], s.Decision
		verdicts[d.Verdict]++
		if d.ChallengerGain.Mid != o["gain"] || d.ChallengerGain.Low != o["gain_lo"] || d.Band.AA != o["aa"] || s.DefaultTime.Median != o["default_median"] {
			return fmt.Errorf("search %d is %+v, the file says %v", i, s, o)
		}
		if (d.Cause == Noisy) != (o["verdict"] == "noisy") || d.Usable() && s.Times.Median != o["median"] {
			return fmt.Errorf("search %d is %+v, the file says %v", i, s, o)
		}
	}
	return nil
}
