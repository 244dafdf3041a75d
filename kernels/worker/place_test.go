package worker

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

func TestFindPlace(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want Place
		bad  string
	}{
		{want: Place{Ranks: 1}},
		{env: map[string]string{"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}, want: Place{3, 4, 1}},
		{env: map[string]string{"OMPI_COMM_WORLD_RANK": "9", "OMPI_COMM_WORLD_SIZE": "16", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}, want: Place{9, 16, 1}},
		{env: map[string]string{"SLURM_PROCID": "2", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0"}, want: Place{2, 4, 0}},
		{env: map[string]string{"PMI_RANK": "1", "PMI_SIZE": "2"}, want: Place{1, 2, 1}},
		{env: map[string]string{"PMI_RANK": "3", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1", // MPICH in a Slurm allocation
			"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0"}, want: Place{3, 8, 1}},
		{env: map[string]string{"PMI_RANK": "3", "PMI_SIZE": "4", "SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_LOCALID": "1"}, want: Place{3, 4, 1}}, // srun
		{env: map[string]string{"RANK": "4", "WORLD_SIZE": "4"}, bad: "RANK: 4 must be less than WORLD_SIZE"},
		{env: map[string]string{"RANK": "one", "WORLD_SIZE": "4"}, bad: `RANK: "one"`},
	} {
		for _, names := range placeNames {
			for _, name := range names {
				t.Setenv(name, c.env[name])
			}
		}
		got, err := FindPlace()
		if c.bad != "" {
			if err == nil || !strings.Contains(err.Error(), c.bad) {
				t.Errorf("%v: %v, want %q", c.env, err, c.bad)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%v: %+v, %v, want %+v", c.env, got, err, c.want)
		}
		if got, want := pythonPlace(t), fmt.Sprint(c.want.Rank, c.want.Ranks, c.want.Local); got != want {
			t.Errorf("%v: the Python harness finds %q, want %s", c.env, got, want)
		}
	}
}

// pythonPlace returns the place that the Python harness reads.
func pythonPlace(t *testing.T) string {
	t.Helper()
	const program = `import sys; sys.path.insert(0, "../../native/python/workers"); from harness.ranks import find_place; print(*find_place())`
	out, err := exec.CommandContext(t.Context(), python(t), "-c", program).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestJoinUnlaunched(t *testing.T) {
	t.Setenv(addressEnv, "")
	if _, err := Join(Place{Ranks: 1}, nil); err == nil || !strings.Contains(err.Error(), `--backend "launch:`) {
		t.Errorf("%v", err)
	}
}
