package workloads

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

const maxSpec = 1024

// kind is a distribution or a modifier.
type kind struct {
	name       string
	doc        string
	params     []param
	statistics []string // names that the first argument may have, such as gini in gini=0.25
	file       bool     // argument is a file name
	build      func(a args, r *recipe) error
}

type param struct {
	name     string
	min, max float64
	def      float64
	whole    bool // integer
	open     bool // a missing argument is NaN; build then takes the value from the problem
}

type args struct {
	v         []float64 // NaN if left out
	first     param     // parameter of v[0]
	statistic string    // statistic whose wanted value is v[0], or ""
	file      string
	digest    string // of the file
}

func (a args) int(i int) int { return int(a.v[i]) }

func (a args) loadLaw(load func(s drawRequest, x float64) ([]float64, error)) loadLaw {
	return loadLaw{load: load, param: a.first, x: a.v[0], statistic: a.statistic}
}

// Parse reads a routing as --routing spells it: name[:arg[:arg]][+modifier[:arg]].... The first argument may give a
// statistic of the loads, such as gini=0.25. The distribution then computes its first parameter. With this parameter,
// the expected loads have a Gini coefficient of 0.25. For an argument out of bounds, the error gives the bounds. For an
// unknown name, the error suggests a similar name.
func Parse(spec string) (Distribution, error) {
	if len(spec) > maxSpec {
		return Distribution{}, fmt.Errorf("%.40q...: longer than %d bytes", spec, maxSpec)
	}
	r := &recipe{gate: softmax}
	base, rest, modified := strings.Cut(spec, "+")
	first, err := parseItem(base, kinds())
	if err == nil {
		r.base = first.spell()
		err = first.build(r)
	}
	if err == nil && modified {
		err = r.modify(first.name, strings.Split(rest, "+"))
	}
	if err != nil {
		return Distribution{}, fmt.Errorf("%q: %w", spec, err)
	}
	return Distribution{r}, nil
}

func (r *recipe) modify(base string, parts []string) error {
	known := modifiers()
	given := make([]*item, len(known))
	for _, part := range parts {
		it, err := parseItem(part, known)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(known, func(k kind) bool { return k.name == it.name })
		if given[i] != nil || it.name == base {
			return fmt.Errorf("%s is given twice", it.name)
		}
		given[i] = &it
	}
	for _, it := range given {
		if it == nil {
			continue
		}
		if err := it.build(r); err != nil {
			return err
		}
		if it.name != "softmax" { // the default
			r.mods = append(r.mods, it.spell())
		}
	}
	return nil
}

type item struct {
	kind
	args args
}

func parseItem(s string, known []kind) (item, error) {
	name, rest, given := strings.Cut(s, ":")
	i := slices.IndexFunc(known, func(k kind) bool { return k.name == name })
	if i < 0 {
		return item{}, fmt.Errorf("unknown name %.40q%s", name, ep.DidYouMean(name, kindNames(known), "; epbench workload --list explains the names"))
	}
	a, err := known[i].parse(rest, given)
	if err != nil {
		return item{}, fmt.Errorf("%s: %w", name, err)
	}
	return item{known[i], a}, nil
}

func (it item) build(r *recipe) error {
	if err := it.kind.build(it.args, r); err != nil {
		return fmt.Errorf("%s: %w", it.name, err)
	}
	return nil
}

func kindNames(ks []kind) []string {
	names := make([]string, len(ks))
	for i, k := range ks {
		names[i] = k.name
	}
	return names
}

func (k kind) parse(s string, given bool) (args, error) {
	if k.file {
		if s == "" {
			return args{}, fmt.Errorf("write %s:FILE", k.name)
		}
		a := args{}
		if a.file, a.digest = ep.SplitDigest(s); a.digest == "" {
			a.digest, _ = fileDigest(a.file) // the draw of a routing reads the file again and reports this error
		}
		return a, nil
	}
	a := args{v: make([]float64, len(k.params))}
	if len(k.params) > 0 {
		a.first = k.params[0]
	}
	for i, p := range k.params {
		a.v[i] = p.def
		if p.open {
			a.v[i] = math.NaN()
		}
	}
	if !given {
		return a, nil
	}
	fields := strings.Split(s, ":")
	if len(fields) > len(k.params) {
		return args{}, fmt.Errorf("%d arguments were given; it takes at most %d", len(fields), len(k.params))
	}
	for i, f := range fields {
		if err := k.parseArg(i, f, &a); err != nil {
			return args{}, err
		}
	}
	return a, nil
}

func (k kind) parseArg(i int, f string, a *args) error {
	p := k.params[i]
	if key, value, ok := strings.Cut(f, "="); ok && key != p.name {
		if i > 0 || !slices.Contains(k.statistics, key) {
			return fmt.Errorf("unknown argument %.20q; use %s", key, strings.Join(append([]string{p.name}, k.statistics...), ", "))
		}
		a.statistic, p, f = key, findStatistic(key).param, value
	} else if ok {
		f = value
	}
	v, err := strconv.ParseFloat(f, 64)
	if err != nil || p.whole && v != math.Trunc(v) {
		return fmt.Errorf("%s: %.20q is not %s", p.name, f, map[bool]string{true: "a whole number", false: "a number"}[p.whole])
	}
	if !(v >= p.min && v <= p.max) {
		return fmt.Errorf("%s: %s is outside %s to %s", p.name, f, p.format(p.min), p.format(p.max))
	}
	a.v[i] = v
	return nil
}

func (it item) spell() string {
	a := it.args
	if it.file {
		spec := it.name + ":" + a.file
		if a.digest != "" {
			spec += "@" + a.digest
		}
		return spec
	}
	var b strings.Builder
	b.WriteString(it.name)
	for i, p := range it.params {
		switch {
		case math.IsNaN(a.v[i]):
		case i == 0 && a.statistic != "":
			fmt.Fprintf(&b, ":%s=%s", a.statistic, findStatistic(a.statistic).format(a.v[i]))
		default:
			b.WriteString(":" + p.format(a.v[i]))
		}
	}
	return b.String()
}

// format returns the shortest text that reads back as v.
func (p param) format(v float64) string {
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if !p.whole && !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
