package drive

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/epbench/epbench/kernels/cuda/declare"
)

// Drill is a fault that a user causes on purpose. The zero Drill causes no fault.
type Drill struct {
	Rank   int
	Delay  time.Duration // sleep at the start of each kernel
	Drop   int           // 1 + the expert whose signal is dropped; 0: none
	Config string        // only candidates whose key contains this text are faulty
}

// ParseDrill reads drop:RANK:EXPERT[:CONFIG] or delay:RANK:DURATION[:CONFIG].
func ParseDrill(s string) (Drill, error) {
	bad := fmt.Errorf("drill: %.60q is neither drop:RANK:EXPERT[:CONFIG] nor delay:RANK:DURATION[:CONFIG]", s)
	f := strings.SplitN(s, ":", 4)
	if len(f) < 3 {
		return Drill{}, bad
	}
	var d Drill
	var err error
	if d.Rank, err = strconv.Atoi(f[1]); err != nil || d.Rank < 0 || d.Rank >= declare.MaxRanks {
		return Drill{}, bad
	}
	switch f[0] {
	case "drop":
		var expert int
		if expert, err = strconv.Atoi(f[2]); expert < 0 || expert >= declare.MaxExperts {
			return Drill{}, bad
		}
		d.Drop = expert + 1
	case "delay":
		if d.Delay, err = time.ParseDuration(f[2]); d.Delay < 0 || d.Delay > 2*time.Second {
			return Drill{}, fmt.Errorf("drill: delay %s is outside 0 to 2s", f[2])
		}
	default:
		return Drill{}, bad
	}
	if len(f) == 4 {
		d.Config = f[3]
	}
	if err != nil {
		return Drill{}, bad
	}
	return d, nil
}
