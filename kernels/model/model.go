package model

import (
	"fmt"

	"github.com/epbench/epbench/tune/ep"
)

// Model predicts times from one file, one design and two links.
type Model struct {
	File    *File
	Design  string
	Host    Link
	Network Link
}

// New returns a model with the links of these names. For the name "", it takes the first link between GPUs of one host,
// or between hosts.
func New(f *File, host, network string) (*Model, error) {
	m := &Model{File: f, Design: "tuned"}
	var err error
	if m.Host, err = f.Link(host, Host); err != nil {
		return nil, err
	}
	m.Network, err = f.Link(network, Network)
	return m, err
}

// Predict returns the time of a call with the fastest transport. Ranks, experts and tokens come from s.
func (m *Model) Predict(p ep.Problem, s Shape, n []Traffic) (Prediction, error) {
	family, err := m.File.Family(m.Design, p)
	if err != nil {
		return Prediction{}, err
	}
	var best Prediction
	for _, choice := range m.choices(p, s, n) {
		q := Predict(family.Costs, choice.call, m.Host, m.Network)
		q.Transport = choice.transport
		if best.Transport == "" || q.Seconds < best.Seconds {
			best = q
		}
	}
	return best, nil
}

type choice struct {
	transport Transport
	call      Call
}

func (m *Model) choices(p ep.Problem, s Shape, n []Traffic) []choice {
	if p.Op != ep.Pair {
		return m.half(p.Op, p, s, n)
	}
	var out []choice
	for _, d := range m.half(ep.Dispatch, p, s, n) {
		for _, c := range m.half(ep.Combine, p, s, n) {
			name := d.transport
			if c.transport != name {
				name = Transport(fmt.Sprintf("%s+%s", d.transport, c.transport))
			}
			out = append(out, choice{name, d.call.Then(c.call)})
		}
	}
	return out
}

func (m *Model) half(op ep.Op, p ep.Problem, s Shape, n []Traffic) []choice {
	var out []choice
	for _, t := range Choices(op, p.Precision) {
		out = append(out, choice{t, NewCall(op, p, s, t, n[t.Index()], m.File.SMs)})
	}
	return out
}
