package sweep

import (
	"time"

	"github.com/epbench/epbench/tune/record"
)

// stopwatch measures the wall time of a sweep. If the sweep was resumed, this includes the earlier commands.
type stopwatch struct {
	began   time.Time
	earlier record.Wall
}

func startWatch(run *record.Run, began time.Time) stopwatch {
	if began.IsZero() {
		began = time.Now()
	}
	return stopwatch{began, run.Wall}
}

// wall returns the wall time so far. `parts` holds the times of this command's steps, without the total.
func (w stopwatch) wall(parts record.Wall) record.Wall {
	parts.Total = time.Since(w.began).Seconds()
	return w.earlier.Plus(parts)
}

func (s *sweeper) writeRun() error {
	s.run.Wall = s.watch.wall(s.harness.wall)
	start := time.Now()
	err := s.dir.WriteRun(s.run)
	s.harness.wall.Writing += time.Since(start).Seconds()
	return err
}

// Wrote adds the time since `began` to the run's wall time, and writes run.json again.
func (o *Summary) Wrote(dir *record.Dir, began time.Time) error {
	took := time.Since(began).Seconds()
	o.Run.Wall = o.Run.Wall.Plus(record.Wall{Total: took, Writing: took})
	return dir.WriteRun(o.Run)
}
