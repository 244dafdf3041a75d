package record

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/epbench/epbench/tune/bounded"
	"github.com/epbench/epbench/tune/ep"
)

// Recording holds one search with all measured times. epbench replay runs other search strategies on these times,
// without a GPU. The file has a line for the search, and then a line for each config.
type Recording struct {
	Schema  int        `json:"schema"`
	Tool    string     `json:"tool"`
	Command []string   `json:"command"`
	Started time.Time  `json:"started"`
	Machine ep.Machine `json:"machine"`
	ABI     ep.ABI     `json:"abi"`
	Policy  string     `json:"policy"`
	Seed    uint64     `json:"seed"`
	AA      AA         `json:"aa"`
	Search  Search     `json:"search"`

	Points []Point `json:"-"` // in order of first measurement
}

// RecordingExt is the extension of a recording's file.
const RecordingExt = ".rounds.gz"

// Pace says how long a search takes, in seconds of wall time.
type Pace struct {
	Config float64 `json:"config"` // of each new config: compile, check, warm up
	Sample float64 `json:"sample"` // of one config in one round
}

// Point is one config of a recording.
type Point struct {
	Config ep.Config `json:"config"`
	Cost   ep.Cost   `json:"cost"`
	Role   Role      `json:"role"`
	Status ep.Status `json:"status"`
	// Rounds holds the times of the config. An entry has the number of its first round, then the times of consecutive
	// rounds in tenths of a nanosecond.
	Rounds [][]float64 `json:"rounds"`
}

// tick is the unit of Point.Rounds, in seconds.
const tick = 1e-10

// Recordings returns a recording of each search of a run, without the A/A test and without other libraries.
func Recordings(run *Run, results []Result) []*Recording {
	type id struct {
		problem ep.Problem
		routing string
	}
	var out []*Recording
	at := map[id]*Recording{}
	for _, s := range run.Searches {
		r := &Recording{Schema: Schema, Tool: run.Tool, Command: run.Command, Started: run.Started, Machine: run.Machine,
			ABI: run.ABI, Policy: run.Policy, Seed: run.Seed, Search: s}
		for _, aa := range run.AA {
			if aa.Problem == s.Problem.Key() && aa.Routing == s.Routing {
				r.AA = aa
			}
		}
		at[id{s.Problem, s.Routing}] = r
		out = append(out, r)
	}
	places := map[id]map[string]int{}
	logs := map[id][]*Result{}
	for i := range results {
		line := &results[i]
		k := id{line.Problem, line.Routing}
		r := at[k]
		if r == nil {
			continue
		}
		logs[k] = append(logs[k], line)
		if line.Stage == StageAA || line.Role == Twin || line.Role == Peer {
			continue
		}
		if places[k] == nil {
			places[k] = map[string]int{}
		}
		r.add(line, places[k])
	}
	for k, r := range at {
		if r.Search.Pace == (Pace{}) {
			r.Search.Pace = paceOf(logs[k])
		}
	}
	return out
}

func (r *Recording) add(line *Result, places map[string]int) {
	key := line.Config.Key()
	k, known := places[key]
	if !known {
		k = len(r.Points)
		places[key] = k
		r.Points = append(r.Points, Point{Config: line.Config, Cost: line.Cost, Role: line.Role, Status: ep.OK})
	}
	p := &r.Points[k]
	if line.Status != ep.OK || line.Stage == StageRetry { // a retry replaces the failure before it
		p.Status = line.Status
	}
	if line.Role != Candidate {
		p.Role = line.Role
	}
	if times := line.Rounds(); len(times) > 0 {
		stretch := []float64{float64(line.Round0)}
		for _, t := range times {
			stretch = append(stretch, math.Round(t/tick))
		}
		p.Rounds = append(p.Rounds, stretch)
	}
}

// PaceFit computes the Pace of a search from its blocks. A block is some rounds of the same configs. A sample is the
// time of one config in one round.
type PaceFit struct {
	samples, wall                   float64 // of blocks without new configs
	newConfigs, newWall, newSamples float64 // of blocks with new configs
}

// Add adds a block: its numbers of new configs and samples, and its wall time in seconds.
func (p *PaceFit) Add(configs, samples int, wall float64) {
	switch {
	case samples == 0:
	case configs == 0:
		p.samples, p.wall = p.samples+float64(samples), p.wall+wall
	default:
		p.newConfigs, p.newWall, p.newSamples = p.newConfigs+float64(configs), p.newWall+wall, p.newSamples+float64(samples)
	}
}

// Pace estimates the seconds for a new config and for a sample from the wall times of the blocks.
func (p *PaceFit) Pace() (out Pace) {
	if p.samples > 0 {
		out.Sample = p.wall / p.samples
	}
	if p.newConfigs > 0 {
		out.Config = max(0, p.newWall-p.newSamples*out.Sample) / p.newConfigs
	}
	return out
}

func paceOf(log []*Result) Pace {
	var p PaceFit
	seen := map[string]bool{}
	for start := 0; start < len(log); {
		end, fresh, n := start, 0, 0
		for ; end < len(log); end++ {
			if key := log[end].Config.Key(); !seen[key] {
				seen[key] = true
				fresh++
			}
			n += len(log[end].Seconds)
			if log[end].End {
				break
			}
		}
		p.Add(fresh, n, log[start].Wall)
		start = end + 1
	}
	return p.Pace()
}

// Complete reports whether the search measured every legal config.
func (r *Recording) Complete() bool { return len(r.Points) >= r.Search.Legal && r.Search.Legal > 0 }

// Name returns the recording's file name, from problem and routing.
func (r *Recording) Name() string {
	p := r.Search.Problem
	parts := []string{string(p.Op), fmt.Sprintf("r%d-h%d-e%d-k%d", p.Ranks, p.Hidden, p.Experts, p.TopK), string(p.Dispatch), fmt.Sprintf("t%d", p.Tokens),
		strings.NewReplacer(":", "", ".", "", "+", "-", "=", "", "/", "-").Replace(r.Search.Routing)}
	if p.Precision != ep.Full {
		parts = append(parts, p.Precision.String())
	}
	return strings.Join(parts, "-") + RecordingExt
}

// WriteTo writes the recording's file. Equal recordings give equal bytes. The first result is always 0.
func (r *Recording) WriteTo(w io.Writer) (int64, error) {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return 0, err
	}
	lines := []any{r}
	for i := range r.Points {
		lines = append(lines, &r.Points[i])
	}
	for _, line := range lines {
		if err := json.MarshalWrite(z, line, json.Deterministic(true)); err != nil {
			return 0, err
		}
		if _, err := z.Write([]byte("\n")); err != nil {
			return 0, err
		}
	}
	return 0, z.Close()
}

const maxRecordingLine = 4 << 20

func readRecording(in io.Reader, cost *bounded.Budget) (*Recording, error) {
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("not a recording: %w", err)
	}
	defer z.Close()
	lines := bufio.NewScanner(cost.Reader("the recording", z))
	lines.Buffer(nil, maxRecordingLine)
	var r *Recording
	for n := 1; lines.Scan(); n++ {
		if err := lines.Err(); err != nil {
			return nil, err // after a read error, Scan returns the first part of a line
		}
		if r == nil {
			r = &Recording{}
			if err := json.Unmarshal(lines.Bytes(), r, strict); err != nil {
				return nil, fmt.Errorf("line 1: %w", err)
			}
			continue
		}
		if err := cost.JSON("points", lines.Bytes()); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		var p Point
		if err := json.Unmarshal(lines.Bytes(), &p, strict); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		r.Points = append(r.Points, p)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if r == nil || r.Schema != Schema {
		return nil, errors.New("not a recording of this schema; make it again with epbench replay save")
	}
	return r, r.Search.Problem.Validate()
}

func (p *Point) check() error {
	for i, stretch := range p.Rounds {
		for k, v := range stretch {
			if len(stretch) < 2 || v < 0 || k > 0 && v == 0 || v > 1e13 || v != math.Trunc(v) {
				return fmt.Errorf("rounds[%d][%d]: %g is not a whole number of tenths of a nanosecond", i, k, v)
			}
		}
	}
	return nil
}

// SecondsOf decodes an entry of Point.Rounds: the first round's number, and the times in seconds.
func SecondsOf(stretch []float64) (round0 int, seconds []float64) {
	for _, v := range stretch[1:] {
		seconds = append(seconds, v*tick)
	}
	return int(stretch[0]), seconds
}

// ReadRecordingFile reads a recording from a file.
func ReadRecordingFile(path string) (*Recording, error) {
	const instead = "epbench replay save keeps the searches of runs as recordings"
	f, err := os.Open(path)
	if err != nil {
		return nil, ep.FileError(path, err, instead)
	}
	defer f.Close()
	cost, err := bounded.ForFile(f)
	if err != nil {
		return nil, ep.FileError(path, err, instead)
	}
	r, err := readRecording(f, cost)
	return r, ep.FileError(path, err, instead)
}
