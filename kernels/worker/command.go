package worker

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// Loopback is the Command.Listen address for ranks on this host.
const Loopback = "127.0.0.1:0"

// Command describes how to start a worker.
type Command struct {
	Argv []string // looked up on PATH

	// Listen is the address at which ranks connect: host or host:port. If it is "", the worker reads messages from
	// standard input and writes them to standard output.
	Listen string

	// Said receives the output lines that are no messages of the protocol. It may be nil.
	Said func(line string)
}

// Split splits a command line as a shell does, with quotes, backslashes, $NAME and ${NAME}. It refuses all other
// shell syntax.
func Split(line string) ([]string, error) {
	words, err := words(line)
	var argv []string
	if err == nil {
		argv, err = expand.Fields(&expand.Config{Env: expand.FuncEnviron(os.Getenv)}, words...)
	}
	if err == nil && len(argv) == 0 {
		err = errors.New("no worker command given")
	}
	if err != nil {
		return nil, fmt.Errorf("command %q: %w", line, err)
	}
	return argv, nil
}

var errShell = errors.New("of the shell's syntax only quotes, backslashes and $NAME are supported; quote the rest, or write sh -c '...'")

// words returns a command line's words. It quotes their literal text, so that expand.Fields replaces only variables.
func words(line string) ([]*syntax.Word, error) {
	file, err := syntax.NewParser(syntax.KeepComments(true)).Parse(strings.NewReader(line), "")
	if err != nil {
		return nil, err
	}
	if len(file.Stmts) == 0 && len(file.Last) == 0 {
		return nil, nil
	}
	if len(file.Stmts) != 1 || len(file.Last) > 0 {
		return nil, errShell
	}
	stmt := file.Stmts[0]
	call, simple := stmt.Cmd.(*syntax.CallExpr)
	if !simple || len(stmt.Comments)+len(stmt.Redirs)+len(call.Assigns) > 0 || stmt.Negated || stmt.Background || stmt.Semicolon.IsValid() {
		return nil, errShell
	}
	for _, w := range call.Args {
		for i, part := range w.Parts {
			if lit, ok := part.(*syntax.Lit); ok {
				w.Parts[i] = &syntax.SglQuoted{Value: unescaped(lit.Value)}
			} else if !plain(line, part) {
				return nil, errShell
			}
		}
	}
	return call.Args, nil
}

func plain(line string, part syntax.WordPart) bool {
	switch x := part.(type) {
	case *syntax.Lit:
		return true
	case *syntax.SglQuoted:
		return !x.Dollar
	case *syntax.DblQuoted:
		return !x.Dollar && !slices.ContainsFunc(x.Parts, func(p syntax.WordPart) bool { return !plain(line, p) })
	case *syntax.ParamExp:
		text := line[x.Pos().Offset():x.End().Offset()]
		return x.Param != nil && syntax.ValidName(x.Param.Value) && (text == "$"+x.Param.Value || text == "${"+x.Param.Value+"}")
	}
	return false
}

func unescaped(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
