package kernels

import (
	"fmt"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// Parts of many kernels' legality. Every error names the parameter, its value
// and the bound.

// CheckNames wants a config to set exactly the declared parameters.
func CheckNames(c ep.Config, params []Param) error {
	for _, q := range params {
		if _, ok := c.Values[q.Name]; !ok {
			return fmt.Errorf("%s: not set, %s takes %s", q.Name, c.Kernel, q.Doc)
		}
	}
	for _, name := range c.Names() {
		if !slices.ContainsFunc(params, func(q Param) bool { return q.Name == name }) {
			return fmt.Errorf("%s: %s has no such parameter", name, c.Kernel)
		}
	}
	return nil
}

// CheckRange wants a parameter to be a number from lo to hi.
func CheckRange(c ep.Config, name string, lo, hi int) error {
	if n, ok := c.Values[name].Int(); !ok || n < lo || n > hi {
		return fmt.Errorf("%s: %s is outside %d to %d", name, c.Values[name], lo, hi)
	}
	return nil
}

// CheckMultiple wants a parameter to be a multiple of unit from lo to hi; what
// names the unit.
func CheckMultiple(c ep.Config, name string, unit, lo, hi int, what string) error {
	if err := CheckRange(c, name, lo, hi); err != nil {
		return err
	}
	if c.Int(name)%unit != 0 {
		return fmt.Errorf("%s: %s is not a multiple of %d, %s", name, c.Values[name], unit, what)
	}
	return nil
}

// CheckWord wants a parameter to have one of these values.
func CheckWord(c ep.Config, name string, known ...string) error {
	if !slices.Contains(known, c.Str(name)) {
		return fmt.Errorf("%s: %q, use %s", name, c.Str(name), strings.Join(known, " or "))
	}
	return nil
}
