package model

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/epbench/epbench/tune/ep"
)

const Schema = 1

const maxFile = 1 << 20

// File is a model file: facts about links, and fitted coefficients.
type File struct {
	Schema    int      `yaml:"schema"`
	Links     []Link   `yaml:"links"`
	SMs       int      `yaml:"sms,omitempty"` // of a GPU
	Recorded  []string `yaml:"recorded,omitempty"`
	LeftOutBy string   `yaml:"left_out_by,omitempty"` // run, shape or ranks
	LeftOut   *Error   `yaml:"left_out,omitempty"`
	Families  []Family `yaml:"families,omitempty"`
}

// Link describes one direction of a link, for one rank.
type Link struct {
	Name      string `yaml:"name"`
	Reach     Reach  `yaml:"reach"`
	Bandwidth Fact   `yaml:"gb_per_s"`   // bandwidth of one rank, 10^9 bytes per second
	Latency   Fact   `yaml:"latency_us"` // time of one message
}

// Reach names the devices that a link joins.
type Reach string

const (
	Host    Reach = "host" // such as NVLink
	Network Reach = "network"
)

// Fact is a figure with its origin.
type Fact struct {
	Value  float64 `yaml:"value"`
	Source string  `yaml:"source"`
	Date   string  `yaml:"date"`
}

// Error sums up relative errors |predicted/recorded - 1|.
type Error struct {
	Parts  int     `yaml:"parts"`  // number of fits; each leaves out one part of the data
	Rows   int     `yaml:"rows"`   // recorded times
	Median float64 `yaml:"median"` // 0.05 is 5 %
	P95    float64 `yaml:"p95"`
	Worst  float64 `yaml:"worst"`
}

// Family holds the coefficients of one kind of call.
type Family struct {
	Design    string       `yaml:"design"` // tuned, default, or a library's kernel
	Op        ep.Op        `yaml:"op"`
	Dispatch  ep.DType     `yaml:"dtype"`
	Precision string       `yaml:"precision"`
	Rows      int          `yaml:"rows"` // recorded times
	LeftOut   Error        `yaml:"left_out"`
	Costs     Coefficients `yaml:"costs"`
}

//go:embed links.yaml
var builtinLinks string

// Links returns the built-in links, without a fit.
func Links() (*File, error) { return Read(strings.NewReader(builtinLinks)) }

func Load(path string) (*File, error) {
	return load(path, "epbench model fit -o FILE makes a model file")
}

// LoadLinks reads a file with the speeds of links.
func LoadLinks(path string) (*File, error) {
	return load(path, "leave it out to use the built-in links")
}

func load(path, instead string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, ep.FileError(path, err, instead)
	}
	defer f.Close()
	m, err := Read(f)
	if err != nil {
		return nil, ep.FileError(path, err, instead)
	}
	return m, nil
}

// Read reads a model file. Unknown or doubled keys and facts without source or date are errors.
func Read(r io.Reader) (*File, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("larger than %d bytes", maxFile)
	}
	var f File
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil {
		if !isModel(b) {
			return nil, errors.New("not a model file; epbench model fit makes one")
		}
		return nil, errors.New(strings.Join(strings.Fields(err.Error()), " "))
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	return &f, f.check()
}

// isModel reports whether b, which cannot be decoded, is meant as a model file.
func isModel(b []byte) bool {
	var fields struct {
		Links yaml.Node `yaml:"links"`
	}
	err := yaml.Unmarshal(b, &fields)
	var other *yaml.TypeError
	return err != nil && !errors.As(err, &other) || !fields.Links.IsZero()
}

func (f *File) Write(w io.Writer) error {
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(f); err != nil {
		return err
	}
	return e.Close()
}

func (f *File) check() error {
	if f.Schema != Schema {
		return fmt.Errorf("schema: %d, this version reads %d", f.Schema, Schema)
	}
	if len(f.Links) == 0 {
		return errors.New("links: empty; a model needs a link of reach host")
	}
	seen := map[string]bool{}
	for i, l := range f.Links {
		if err := l.check(); err != nil {
			return fmt.Errorf("links[%d].%w", i, err)
		}
		if seen[l.Name] {
			return fmt.Errorf("links[%d].name: %s is there twice", i, l.Name)
		}
		seen[l.Name] = true
	}
	for i, g := range f.Families {
		if err := g.check(); err != nil {
			return fmt.Errorf("families[%d].%w", i, err)
		}
	}
	return nil
}

func (l Link) check() error {
	if l.Name == "" {
		return errors.New("name: is empty")
	}
	if l.Reach != Host && l.Reach != Network {
		return fmt.Errorf("reach: %.20q, use %s or %s", l.Reach, Host, Network)
	}
	if err := l.Bandwidth.check(0.1, 10_000); err != nil {
		return fmt.Errorf("gb_per_s.%w", err)
	}
	if err := l.Latency.check(0, 1000); err != nil {
		return fmt.Errorf("latency_us.%w", err)
	}
	return nil
}

func (f Fact) check(low, high float64) error {
	if !(f.Value >= low && f.Value <= high) {
		return fmt.Errorf("value: %v is outside %v to %v", f.Value, low, high)
	}
	if f.Source == "" {
		return errors.New("source: is empty; say which document or command gave the figure")
	}
	if f.Date == "" {
		return errors.New("date: is empty; give the date of the source")
	}
	return nil
}

func (g Family) check() error {
	if g.Design == "" {
		return errors.New("design: is empty")
	}
	if _, err := ep.ParseOp(string(g.Op)); err != nil {
		return err
	}
	if _, err := ep.ParseDType(string(g.Dispatch)); err != nil {
		return err
	}
	if _, err := ep.ParsePrecision(g.Precision); err != nil {
		return err
	}
	for _, v := range g.Costs.list() {
		if math.IsNaN(*v) || *v < 0 || *v > 1e6 {
			return fmt.Errorf("costs: %v is outside 0 to 1e6", *v)
		}
	}
	if s := g.Costs.LinkShare; !(s > 0 && s <= 1) {
		return fmt.Errorf("costs.link_share: %v is outside 0 to 1", s)
	}
	return nil
}

// Link returns the link with this name. If the name is empty, it returns the first link with this reach.
func (f *File) Link(name string, reach Reach) (Link, error) {
	var known []string
	for _, l := range f.Links {
		if l.Reach == reach && (name == "" || l.Name == name) {
			return l, nil
		}
		if l.Reach == reach {
			known = append(known, l.Name)
		}
	}
	if name == "" {
		return Link{}, fmt.Errorf("links: none of reach %s", reach)
	}
	return Link{}, fmt.Errorf("no link %.40q of reach %s%s", name, reach, ep.DidYouMean(name, known, "; there are: "+strings.Join(known, ", ")))
}

// Family returns the coefficients for a problem and a design.
func (f *File) Family(design string, p ep.Problem) (*Family, error) {
	for i := range f.Families {
		g := &f.Families[i]
		if g.Design == design && g.Op == p.Op && g.Dispatch == p.Dispatch && g.Precision == p.Precision.String() {
			return g, nil
		}
	}
	return nil, fmt.Errorf("the model has no fit for %s %s %s of %s precision; fit a model to runs of it", design, p.Op, p.Dispatch, p.Precision)
}
