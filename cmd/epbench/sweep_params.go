package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/sweep"
)

// anyLegal returns an error if --param leaves an op without a legal config.
func anyLegal(b kernels.Backend, p *sweep.Plan) error {
	given := p.Options.Params
	if len(given) == 0 {
		return nil
	}
	all := kernels.WithHooks(b.Kernels(), given)
	for _, op := range ep.Ops() {
		var of []sweep.PlannedSearch
		for _, s := range p.Searches {
			if s.Problem().Op == op && op != ep.Pair { // the configs of a pair come from dispatch and combine
				of = append(of, s)
			}
		}
		if len(of) == 0 || slices.ContainsFunc(of, func(s sweep.PlannedSearch) bool { return s.Legal > 0 }) {
			continue
		}
		for _, space := range of[0].Spaces {
			if err := refusedValue(all, b.Machine(), of[0].Problem(), space.Kernel, given); err != nil {
				return err
			}
		}
		return usagef("--param: with these values no config of %s is legal: %s", op, strings.Join(rejections(of[0].Spaces), "; "))
	}
	return nil
}

// refusedValue returns an error if all given values of one parameter are illegal. It tries each value together with the
// default values of the other parameters.
func refusedValue(all []kernels.Kernel, m ep.Machine, p ep.Problem, kernel string, given map[string][]ep.Value) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		var first error
		for _, v := range given[name] {
			c, err := kernels.ParseConfig(all, m, p, fmt.Sprintf("%s:%s=%s", kernel, name, v))
			if err == nil {
				err = legalAmong(all)(m, p, c)
			}
			if err == nil {
				first = nil
				break
			}
			if first == nil {
				first = usagef("--param %s: %s", name, strings.TrimPrefix(err.Error(), name+": "))
			}
		}
		if first != nil {
			return first
		}
	}
	return nil
}
