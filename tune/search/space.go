package search

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// Axis is one launch parameter with the values that it may have.
type Axis struct {
	Name   string
	Values []ep.Value
	Design bool // the search treats each value as a kernel of its own
}

// Rule returns the name of the constraint that a config breaks, or "". A rule must not store the config, because the
// config changes after the call.
type Rule func(ep.Config) string

// Grid describes the configs of one kernel: all combinations of values that break no rule.
type Grid struct {
	Kernel string
	Axes   []Axis
	Rules  []Rule // the first broken rule is reported

	points []uint64 // numbers of the configs (see encode); nil for all configs
}

const maxProduct = 20_000_000

// A Space holds every config that one search may measure. These configs are called points. The index of a point never
// changes.
type Space struct {
	parts  []part
	extra  []ep.Config    // configs that Add added
	extras map[string]int // index by key
	n      int            // number of points
}

// part holds the points of one grid.
type part struct {
	grid   Grid
	first  int      // index of its first point
	points []uint64 // as encode returns them, ascending
}

// NewSpace makes a space of grids. It also returns how many combinations each rule removed.
func NewSpace(grids ...Grid) (*Space, []record.SpaceInfo, error) {
	s := &Space{extras: map[string]int{}}
	var infos []record.SpaceInfo
	for _, g := range grids {
		p, info, err := enumerate(g)
		if err != nil {
			return nil, nil, err
		}
		p.first = s.n
		s.n += len(p.points)
		s.parts, infos = append(s.parts, p), append(infos, info)
	}
	return s, infos, nil
}

func enumerate(g Grid) (p part, info record.SpaceInfo, err error) {
	p.grid, info.Kernel = g, g.Kernel
	if g.points != nil {
		p.points, info.Points, info.Legal = g.points, len(g.points), len(g.points)
		return p, info, nil
	}
	info.Points = 1
	for _, a := range g.Axes {
		if len(a.Values) == 0 {
			return p, info, fmt.Errorf("space: %s.%s has no values", g.Kernel, a.Name)
		}
		if info.Points > maxProduct/len(a.Values) {
			return p, info, fmt.Errorf("space: %s has more than %d points; give fewer values with --param", g.Kernel, maxProduct)
		}
		info.Points *= len(a.Values)
	}
	rejected := map[string]int{}
	c := ep.Config{Kernel: g.Kernel, Values: make(map[string]ep.Value, len(g.Axes))}
	for n := range uint64(info.Points) {
		g.decode(c, n)
		if rule := g.brokenRule(c); rule != "" {
			rejected[rule]++
		} else {
			p.points = append(p.points, n)
		}
	}
	info.Legal = len(p.points)
	for rule, n := range rejected {
		info.Rejected = append(info.Rejected, record.Rejection{Rule: rule, Count: n})
	}
	slices.SortFunc(info.Rejected, func(a, b record.Rejection) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Rule, b.Rule))
	})
	return p, info, nil
}

func (g *Grid) decode(c ep.Config, n uint64) {
	for i := len(g.Axes) - 1; i >= 0; i-- {
		a := &g.Axes[i]
		radix := uint64(len(a.Values))
		c.Values[a.Name] = a.Values[n%radix]
		n /= radix
	}
}

// encode returns the number of a config: a mixed-radix number with one digit for each axis. ok is false for a config
// outside the grid.
func (g *Grid) encode(c ep.Config) (n uint64, ok bool) {
	if c.Kernel != g.Kernel || len(c.Values) != len(g.Axes) {
		return 0, false
	}
	for _, a := range g.Axes {
		digit := slices.Index(a.Values, c.Values[a.Name])
		if digit < 0 {
			return 0, false
		}
		n = n*uint64(len(a.Values)) + uint64(digit)
	}
	return n, true
}

func (g *Grid) brokenRule(c ep.Config) string {
	for _, r := range g.Rules {
		if broken := r(c); broken != "" {
			return broken
		}
	}
	return ""
}

// Clone returns a copy of s.
func (s *Space) Clone() *Space {
	return &Space{parts: s.parts, extra: slices.Clone(s.extra), extras: maps.Clone(s.extras), n: s.n}
}

// Add adds a config if the space does not have it, and returns its index.
func (s *Space) Add(c ep.Config) int {
	if i, ok := s.Index(c); ok {
		return i
	}
	s.extras[c.Key()] = s.n
	s.extra = append(s.extra, c)
	s.n++
	return s.n - 1
}

// Len returns the number of points.
func (s *Space) Len() int { return s.n }

// Config returns the config of point i.
func (s *Space) Config(i int) ep.Config {
	k := s.kernel(i)
	if k == len(s.parts) {
		return s.extra[i-(s.n-len(s.extra))]
	}
	p := &s.parts[k]
	c := ep.Config{Kernel: p.grid.Kernel, Values: make(map[string]ep.Value, len(p.grid.Axes))}
	p.grid.decode(c, p.points[i-p.first])
	return c
}

// kernel returns the index of the grid that has point i, or len(s.parts) if no grid has it.
func (s *Space) kernel(i int) int {
	k := 0
	for k < len(s.parts) && i >= s.parts[k].first+len(s.parts[k].points) {
		k++
	}
	return k
}

// Index returns the index of a config. ok is false for a config outside the space.
func (s *Space) Index(c ep.Config) (point int, ok bool) {
	for k := range s.parts {
		p := &s.parts[k]
		if n, ok := p.grid.encode(c); ok {
			if at, ok := slices.BinarySearch(p.points, n); ok {
				return p.first + at, true
			}
		}
	}
	if len(s.extra) == 0 { // making the key is slow
		return 0, false
	}
	i, ok := s.extras[c.Key()]
	return i, ok
}

// Neighbors lists the points that differ from point i in exactly one parameter.
func (s *Space) Neighbors(i int) []int {
	c := s.Config(i)
	var out []int
	for _, a := range s.axes(c.Kernel) {
		for _, v := range a.Values {
			if j, ok := s.Index(c.With(a.Name, v)); ok && j != i {
				out = append(out, j)
			}
		}
	}
	return out
}

func (s *Space) axes(kernel string) []Axis {
	for _, p := range s.parts {
		if p.grid.Kernel == kernel {
			return p.grid.Axes
		}
	}
	return nil
}

// Design returns the name of the config's kernel, followed by the values of the axes that have Design set.
func (s *Space) Design(c ep.Config) string {
	name := c.Kernel
	for _, a := range s.axes(c.Kernel) {
		if a.Design {
			name += " " + a.Name + "=" + string(c.Values[a.Name])
		}
	}
	return name
}

// Designs returns, by kernel, the names of the axes that have Design set.
func (s *Space) Designs() map[string][]string {
	out := map[string][]string{}
	for _, p := range s.parts {
		for _, a := range p.grid.Axes {
			if a.Design {
				out[p.grid.Kernel] = append(out[p.grid.Kernel], a.Name)
			}
		}
	}
	return out
}

// SetDesigns sets the field Design of all axes from a result of Designs.
func (s *Space) SetDesigns(designs map[string][]string) {
	for _, p := range s.parts {
		for i := range p.grid.Axes {
			a := &p.grid.Axes[i]
			a.Design = slices.Contains(designs[p.grid.Kernel], a.Name)
		}
	}
}

// Fingerprint returns 16 hex digits of a SHA-256 hash of axes, points and builds of kernels.
func (s *Space) Fingerprint(abi ep.ABI) string {
	h := sha256.New()
	for _, p := range s.parts {
		fmt.Fprintf(h, "kernel %q %q\n", p.grid.Kernel, abi.Of(p.grid.Kernel))
		for _, a := range p.grid.Axes {
			fmt.Fprintf(h, "axis %q %q\n", a.Name, a.Values)
		}
		binary.Write(h, binary.LittleEndian, p.points)
	}
	for _, c := range s.extra {
		fmt.Fprintf(h, "extra %q\n", c.Key())
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// SpaceOf makes a space that has only the given configs.
func SpaceOf(configs []ep.Config) (*Space, error) {
	byKernel := map[string][]ep.Config{}
	var kernels []string
	for _, c := range configs {
		if byKernel[c.Kernel] == nil {
			kernels = append(kernels, c.Kernel)
		}
		byKernel[c.Kernel] = append(byKernel[c.Kernel], c)
	}
	var grids []Grid
	for _, k := range kernels {
		g, err := listedGrid(byKernel[k])
		if err != nil {
			return nil, err
		}
		grids = append(grids, g)
	}
	s, _, err := NewSpace(grids...)
	return s, err
}

func listedGrid(configs []ep.Config) (Grid, error) {
	g := Grid{Kernel: configs[0].Kernel, points: []uint64{}}
	values := map[string]map[ep.Value]bool{}
	for _, c := range configs {
		for n, v := range c.Values {
			if values[n] == nil {
				values[n] = map[ep.Value]bool{}
			}
			values[n][v] = true
		}
	}
	product := 1.0
	for _, n := range slices.Sorted(maps.Keys(values)) {
		g.Axes = append(g.Axes, Axis{Name: n, Values: slices.SortedFunc(maps.Keys(values[n]), ep.Value.Compare)})
		product *= float64(len(values[n]))
	}
	if product > 1<<62 {
		return Grid{}, fmt.Errorf("space: %s has too many combinations of values to number", g.Kernel)
	}
	for _, c := range configs {
		n, ok := g.encode(c)
		if !ok {
			return Grid{}, fmt.Errorf("space: %s lacks a parameter that other configs of %s have", c.Key(), g.Kernel)
		}
		g.points = append(g.points, n)
	}
	slices.Sort(g.points)
	g.points = slices.Compact(g.points)
	return g, nil
}
