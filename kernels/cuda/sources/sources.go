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

// Read returns the text of a file in native/kernels or native/include.
func Read(name string) (string, error) {
	for _, dir := range []string{"kernels/", "include/"} {
		if text, err := fs.ReadFile(native.Sources, dir+name); err == nil {
			return string(text), nil
		}
	}
	return "", fmt.Errorf("device source %s is in neither native/kernels nor native/include", name)
}

// included returns the name in a line such as #include "ep_args.h", or "".
func included(line string) string {
	directive, ok := strings.CutPrefix(strings.TrimLeft(line, " \t"), "#")
	name, found := strings.CutPrefix(strings.TrimLeft(directive, " \t"), "include")
	if !ok || !found {
		return ""
	}
	if name, ok = strings.CutPrefix(strings.TrimLeft(name, " \t"), `"`); !ok {
		return ""
	}
	name, _, _ = strings.Cut(name, `"`)
	return name
}

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
		for line := range strings.Lines(text) {
			if name := included(line); name != "" {
				todo = append(todo, name)
			}
		}
	}
	return out, nil
}

// codes caches the results of Code. fileCodes caches the code of single files, because most files are included by many
// sources.
var codes, fileCodes sync.Map

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
		code, ok := fileCodes.Load(name)
		if !ok {
			code = CodeOnly(texts[name])
			fileCodes.Store(name, code)
		}
		fmt.Fprintf(&out, "%s\n%s\n", name, code)
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
