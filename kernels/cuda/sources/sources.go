// Package sources holds the embedded device sources, and names the binaries made from them.
package sources

import (
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/epbench/epbench/native"
)

// Read returns a file of native/kernels or native/include.
func Read(name string) (string, error) {
	for _, dir := range []string{"kernels/", "include/"} {
		if text, err := fs.ReadFile(native.Sources, dir+name); err == nil {
			return string(text), nil
		}
	}
	return "", fmt.Errorf("device source %s is in neither native/kernels nor native/include", name)
}

var includeLine = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*"([^"]+)"`)

// Closure returns the texts of a device source and of everything that it includes, by file name. It ignores #if, and
// leaves out headers of the CPU emulation.
func Closure(source string) (map[string]string, error) {
	out := map[string]string{}
	todo := []string{source}
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if _, seen := out[name]; seen {
			continue
		}
		text, err := Read(name)
		if err != nil {
			if name == source {
				return nil, err
			}
			continue
		}
		out[name] = text
		for _, m := range includeLine.FindAllStringSubmatch(text, -1) {
			todo = append(todo, m[1])
		}
	}
	return out, nil
}

// cToken matches a comment, white space or a token of C. It keeps `#define F(` together, because `#define F (x)`
// differs from `#define F(x)`.
var cToken = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'` +
	`|#[ \t]*define[ \t]+\w+\(?|\w+|\\\r?\n|\n|\s` +
	`|<<=|>>=|\.\.\.|->|::|##|\+\+|--|<<|>>|&&|\|\||[-+*/%&|^<>=!]=|.`)

// CodeOnly removes comments and layout from a C source.
func CodeOnly(text string) string {
	var out strings.Builder
	directive := false
	for _, t := range cToken.FindAllString(text, -1) {
		switch {
		case t == "\n" && directive:
			out.WriteString("\n")
			directive = false
		case strings.TrimSpace(t) == "" || t[0] == '\\' || strings.HasPrefix(t, "//") || strings.HasPrefix(t, "/*"):
		case strings.HasPrefix(t, "#") && !directive:
			out.WriteString("\n" + strings.Join(strings.Fields(t[1:]), " ") + " ")
			directive = true
		default:
			out.WriteString(t + " ")
		}
	}
	return out.String()
}

var codes sync.Map

// Code returns CodeOnly of a device source and all that it includes.
func Code(source string) (string, error) {
	if code, ok := codes.Load(source); ok {
		return code.(string), nil
	}
	texts, err := Closure(source)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		fmt.Fprintf(&out, "%s\n%s\n", name, CodeOnly(texts[name]))
	}
	codes.Store(source, out.String())
	return out.String(), nil
}

var mentioned sync.Map

// mentions reports whether a source or its includes mention a name.
func mentions(source, name string) (bool, error) {
	key := [2]string{source, name}
	if found, ok := mentioned.Load(key); ok {
		return found.(bool), nil
	}
	code, err := Code(source)
	if err != nil {
		return false, err
	}
	found := strings.Contains(code, name)
	mentioned.Store(key, found)
	return found, nil
}

var argsVersion = regexp.MustCompile(`#define EP_ARGS_VERSION (\d+)`)

// ArgsVersion returns EP_ARGS_VERSION of the device sources.
func ArgsVersion() uint32 {
	text, err := Read("ep_args.h")
	m := argsVersion.FindStringSubmatch(text)
	if err != nil || m == nil {
		panic("sources: ep_args.h defines no EP_ARGS_VERSION")
	}
	n, _ := strconv.Atoi(m[1])
	return uint32(n)
}
