package record

import (
	"archive/tar"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

func TestArchiveIsRead(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 160 MB")
	}
	archives, _ := filepath.Glob("../../testdata/archive/h200-*.tar.xz")
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
				if err != nil {
					return err
				}
				run, err := decodeRun(b)
				if err != nil {
					return err
				}
				for _, s := range run.Searches {
					verdicts[s.Decision.Verdict]++
				}
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
		_ = xz.Process.Kill() // ends xz if the test stops early
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
