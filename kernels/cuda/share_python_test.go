package cuda

import (
	"encoding/json"
	"os/exec"
	"testing"
)

// TestShareInPython: workers in Python split a share of the product as we do, so that
// costs of other libraries are beside the same launches.
func TestShareInPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 here")
	}
	const program = `
import itertools, json, sys
sys.path.insert(0, "../../native/python/workers")
from harness.beside import share_of
print(json.dumps([[x, share_of(*x)] for x in itertools.product((0.001, 0.02, 0.3, 0.5, 0.99, 1, 1.01, 7.5), (1, 4, 8, 12, 128), (1, 4), (1, 2))]))
`
	out, err := exec.Command(python, "-B", "-c", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	var all [][2][]float64
	if err := json.Unmarshal(out, &all); err != nil || len(all) != 160 {
		t.Fatalf("%v, %d cases", err, len(all))
	}
	for _, c := range all {
		x := c[0]
		batch, launches := shareOf(x[0], int(x[1]), int(x[2]), int(x[3]))
		if float64(batch) != c[1][0] || float64(launches) != c[1][1] {
			t.Errorf("share %g of %g groups in %g launches, at least %g: %d and %d, in Python %v", x[0], x[1], x[2], x[3], batch, launches, c[1])
		}
	}
}
