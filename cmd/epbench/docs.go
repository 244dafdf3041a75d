package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/docs"
	"github.com/epbench/epbench/reports/text"
	"github.com/epbench/epbench/tune/ep"
)

func newDocs() *cobra.Command {
	return &cobra.Command{
		Use:   "docs [PAGE]",
		Short: "List the pages of the documentation, or print one",
		Long:  "List the pages of the documentation, each with the question that it answers. With\nPAGE, print that page, wrapped for the terminal.\n\n" + pageList(),
		Example: `  epbench docs
  epbench docs host
  epbench docs docs/run-deepep.md`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := pageList()
			if len(args) == 1 {
				name := strings.TrimSuffix(strings.TrimPrefix(args[0], "docs/"), ".md")
				page, err := docs.Pages.ReadFile(name + ".md")
				if err != nil {
					return usagef("no page is called %.60q%s", name, nearPages(name))
				}
				out = pageText(string(page), cmp.Or(widthOf(cmd.OutOrStdout()), helpWidth))
			}
			_, err := io.WriteString(cmd.OutOrStdout(), out)
			return err
		},
	}
}

func pageNames() (names []string) {
	files, _ := docs.Pages.ReadDir(".") // the folder is embedded
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".md"))
	}
	return names
}

func pageList() string {
	var out strings.Builder
	for _, name := range pageNames() {
		page, _ := docs.Pages.ReadFile(name + ".md")
		question, _, _ := strings.Cut(string(page), "\n")
		fmt.Fprintln(&out, wrapped(fmt.Sprintf("  %-17s%s", name, strings.TrimPrefix(question, "# "))))
	}
	return out.String()
}

func nearPages(word string) string {
	near := slices.DeleteFunc(pageNames(), func(name string) bool { return word == "" || !strings.Contains(name, word) })
	if len(near) > 0 {
		return "; did you mean " + strings.Join(near, ", ") + "?"
	}
	return ep.DidYouMean(word, pageNames(), "; epbench docs lists them")
}

var (
	pageNote  = regexp.MustCompile(`(?m)^<!--.*-->\n`)
	pageLink  = regexp.MustCompile(`\[([^\]]+)\]\(([a-z-]+)\.md(?:#[^)]*)?\)`)
	itemMark  = regexp.MustCompile(`^ *(?:- |\d+\. )`)
	codeMark  = regexp.MustCompile("^ *```")
	pageBreak = regexp.MustCompile("^$|^[|#]|" + itemMark.String() + "|" + codeMark.String())
)

// pageText wraps a page, except code. It drops notes to maintainers, and names the command that prints a linked page.
func pageText(page string, width int) string {
	var out strings.Builder
	paragraph, code := "", false
	flush := func() {
		mark := itemMark.FindString(paragraph)
		for i, line := range text.Wrap(paragraph[len(mark):], width-len(mark)) {
			if i > 0 {
				mark = strings.Repeat(" ", len(mark))
			}
			fmt.Fprintln(&out, mark+line)
		}
		paragraph = ""
	}
	page = pageNote.ReplaceAllString(page, "")
	page = pageLink.ReplaceAllString(strings.ReplaceAll(page, "**", ""), "$1 (epbench docs $2)")
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		if paragraph != "" && pageBreak.MatchString(line) {
			flush()
		}
		switch {
		case codeMark.MatchString(line):
			code = !code
		case code || line == "":
			fmt.Fprintln(&out, line)
		case paragraph != "":
			paragraph += " " + strings.TrimSpace(line)
		default:
			paragraph = line
		}
	}
	flush()
	return out.String()
}
