package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/epbench/epbench/tune/testfile"
)

// figures matches a block of figures in a page. A command makes the block:
//
//	<!-- figures: epbench report RUN --only winners --format csv | columns tokens "us={median_us}" -->
//	| tokens | us |
//	...
//	<!-- end -->
//
// "tar xf ARCHIVE ;" may precede the command. "cat FILE" may replace it, to read a CSV file. The steps after "|" change the
// command's CSV:
//
//	where COLUMN=VALUE ...           keeps the rows that have these values
//	columns TITLE=TEMPLATE ...       makes one column for each word; a word without "=", such as us, means us={us}
//	across COLUMN KEY... TEMPLATE    makes a column for each value of COLUMN and a row for each value of KEY; the
//	                                 template gives the text of a cell
//
// A template names columns in braces: {median_us} prints three digits, {gain_x:2} two decimals. An
// interval such as [{low}, {high}] is left out if the row has no values for it.
var figures = regexp.MustCompile(`(?ms)^<!-- figures: (.*?) -->\n(.*?)^<!-- end -->`)

const maxPageLines = 150

func pages(t *testing.T, root string) []string {
	t.Helper()
	out, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(out) < 10 {
		t.Fatalf("%d pages in docs (%v)", len(out), err)
	}
	return append(out, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md"))
}

// TestPages compares each block of figures with a new one. EPBENCH_UPDATE=1 writes the new blocks.
func TestPages(t *testing.T) {
	if testing.Short() {
		t.Skip("reads archives; left out with -short")
	}
	if _, err := exec.LookPath("xz"); err != nil {
		t.Skip("xz is not installed; the archives need it")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	inLinkedFolder(t, root)
	blocks := 0
	for _, page := range pages(t, root) {
		made := figures.ReplaceAllFunc(testfile.Read(t, page), func(block []byte) []byte {
			blocks++
			recipe := string(figures.FindSubmatch(block)[1])
			table, err := makeFigures(recipe)
			if err != nil {
				t.Errorf("%s: %s: %v", filepath.Base(page), recipe, err)
				return block
			}
			return fmt.Appendf(nil, "<!-- figures: %s -->\n%s<!-- end -->", recipe, table)
		})
		testfile.Golden(t, page, made)
	}
	if blocks < 5 {
		t.Errorf("only %d blocks of figures found", blocks)
	}
}

func TestPagesAreShort(t *testing.T) {
	for _, page := range pages(t, "../..") {
		text := testfile.Read(t, page)
		if n := bytes.Count(text, []byte("\n")); n > maxPageLines {
			t.Errorf("%s has %d lines, at most %d are allowed", page, n, maxPageLines)
		}
	}
}

func TestReadmeFitsTheScreen(t *testing.T) {
	text := testfile.Read(t, "../../README.md")
	for i, line := range strings.SplitN(string(text), "\n", 41)[:40] {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("README.md:%d has %d columns", i+1, n)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#:]*)(#[^)]*)?\)`)

// TestPageLinks: each link's file and heading exist.
func TestPageLinks(t *testing.T) {
	for _, page := range pages(t, "../..") {
		text := testfile.Read(t, page)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target := filepath.Join(filepath.Dir(page), m[1])
			if m[1] == "" {
				target = page
			}
			to, err := os.ReadFile(target)
			if info, e := os.Stat(target); err != nil && (e != nil || !info.IsDir()) {
				t.Errorf("%s: no file %s", page, m[1])
			} else if m[2] != "" && !slices.Contains(anchors(string(to)), m[2]) {
				t.Errorf("%s: %s has no heading %s", page, m[1], m[2])
			}
		}
	}
}

// anchors returns a page's headings as links spell them.
func anchors(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if heading := strings.TrimLeft(line, "#"); heading != line {
			words := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			out = append(out, "#"+strings.ReplaceAll(words, " ", "-"))
		}
	}
	return out
}

// inLinkedFolder changes to a folder with links to the repository, so that commands write no file into the repository.
func inLinkedFolder(t *testing.T, root string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"examples", "testdata", "reports", "tune", "native"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

func makeFigures(recipe string) (string, error) {
	steps := strings.Split(recipe, " | ")
	command := steps[0]
	if archive, rest, ok := strings.Cut(command, " ; "); ok {
		if err := unpack(archive); err != nil {
			return "", err
		}
		command = rest
	}
	text, err := outputOf(command)
	if err != nil {
		return "", err
	}
	first, _, _ := strings.Cut(text, "\n\n")
	reader := csv.NewReader(strings.NewReader(first))
	reader.Comment, reader.FieldsPerRecord = '#', -1
	rows, err := reader.ReadAll()
	if err != nil || len(rows) < 2 {
		return "", fmt.Errorf("%d lines of CSV: %v", len(rows), err)
	}
	for _, step := range steps[1:] {
		words := shellWords(step)
		make, ok := map[string]func([][]string, []string) ([][]string, error){
			"where": where, "columns": columns, "across": across}[words[0]]
		if !ok {
			return "", fmt.Errorf("no step %q", words[0])
		}
		if rows, err = make(rows, words[1:]); err != nil {
			return "", err
		}
	}
	return markdown(rows), nil
}

func outputOf(command string) (string, error) {
	if path, ok := strings.CutPrefix(command, "cat "); ok {
		text, err := os.ReadFile(path)
		return string(text), err
	}
	var stdout, stderr bytes.Buffer
	args := shellWords(strings.TrimPrefix(command, "epbench "))
	if code := run(context.Background(), args, &stdout, &stderr); code != exitDone {
		return "", fmt.Errorf("exit %d: %s", code, stderr.String())
	}
	return stdout.String(), nil
}

func unpack(command string) error {
	words := strings.Fields(command)
	if len(words) < 3 || words[0] != "tar" {
		return fmt.Errorf("%q is not of the form tar xf ARCHIVE", command)
	}
	done := strings.ReplaceAll(command, "/", "_") + ".done"
	if _, err := os.Stat(done); err == nil {
		return nil
	}
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, out)
	}
	return os.WriteFile(done, nil, 0o644)
}

// where keeps rows that meet all conditions.
func where(rows [][]string, conditions []string) ([][]string, error) {
	out := rows[:1:1]
	for _, row := range rows[1:] {
		keep := true
		for _, c := range conditions {
			name, value, _ := strings.Cut(c, "=")
			got, err := fill("{"+name+":}", rows[0], row)
			if err != nil {
				return nil, err
			}
			keep = keep && got == value
		}
		if keep {
			out = append(out, row)
		}
	}
	if len(out) == 1 {
		return nil, fmt.Errorf("no row has %v", conditions)
	}
	return out, nil
}

func columns(rows [][]string, specs []string) ([][]string, error) {
	out := [][]string{nil}
	for _, spec := range specs {
		title, _ := titled(spec)
		out[0] = append(out[0], title)
	}
	for _, row := range rows[1:] {
		var cells []string
		for _, spec := range specs {
			_, template := titled(spec)
			cell, err := fill(template, rows[0], row)
			if err != nil {
				return nil, err
			}
			cells = append(cells, cell)
		}
		out = append(out, cells)
	}
	return out, nil
}

// titled splits TITLE=TEMPLATE. A word without "=", such as us, means us={us}.
func titled(spec string) (title, template string) {
	if title, template, ok := strings.Cut(spec, "="); ok {
		return title, template
	}
	return spec, "{" + spec + "}"
}

// across makes a column for each value of a column.
func across(rows [][]string, words []string) ([][]string, error) {
	if len(words) < 3 {
		return nil, fmt.Errorf("across needs a column, a key and a template: %v", words)
	}
	keys := words[1 : len(words)-1]
	all, err := columns(rows, append(append(slices.Clone(keys), words[0]), "cell="+words[len(words)-1]))
	if err != nil {
		return nil, err
	}
	out, place := [][]string{slices.Clone(all[0][:len(keys)])}, map[string]int{}
	for _, row := range all[1:] {
		if value := row[len(keys)]; !slices.Contains(out[0], value) {
			out[0] = append(out[0], value)
		}
	}
	for _, row := range all[1:] {
		key := strings.Join(row[:len(keys)], "\x00")
		at, ok := place[key]
		if !ok {
			at, place[key] = len(out), len(out)
			out = append(out, append(slices.Clone(row[:len(keys)]), make([]string, len(out[0])-len(keys))...))
		}
		out[at][slices.Index(out[0], row[len(keys)])] = row[len(keys)+1]
	}
	return out, nil
}

var templateColumn = regexp.MustCompile(`\{([A-Za-z0-9_/%]+)(:[0-9]?)?\}`)

// fill puts a row's values into a template. {name:} is the unchanged value.
func fill(template string, names, row []string) (string, error) {
	var missing error
	out := templateColumn.ReplaceAllStringFunc(template, func(s string) string {
		m := templateColumn.FindStringSubmatch(s)
		i := slices.Index(names, m[1])
		if i < 0 || i >= len(row) {
			missing = fmt.Errorf("no column %s; there are %v", m[1], names)
			return s
		}
		return figure(row[i], m[2])
	})
	return strings.ReplaceAll(out, " [, ]", ""), missing
}

// figure writes a number with commas, and with three digits. With `format` ":2" it writes two decimals. Other text
// stays.
func figure(text, format string) string {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || format == ":" {
		return text
	}
	decimals := 0
	switch _, isInteger := strconv.Atoi(text); {
	case format != "":
		decimals = int(format[1] - '0')
	case isInteger == nil || x >= 99.95:
	case x >= 9.995:
		decimals = 1
	default:
		decimals = 2
	}
	whole, fraction, _ := strings.Cut(strconv.FormatFloat(x, 'f', decimals, 64), ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if strings.Trim(whole, "-0.") == "" {
		whole = strings.TrimPrefix(whole, "-")
	}
	return whole
}

func markdown(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return b.String()
}

func TestFigure(t *testing.T) {
	for _, c := range []struct{ text, format, want string }{
		{"3.856", "", "3.86"}, {"49.12", "", "49.1"}, {"129.952", "", "130"}, {"1060.4", "", "1,060"},
		{"4096", "", "4,096"}, {"4096", ":", "4096"}, {"0.97237", ":2", "0.97"}, {"12992000", "", "12,992,000"},
		{"-1234.5", ":0", "-1,234"}, {"uniform", "", "uniform"}, {"9.999", "", "10.0"}, {"-0.008", ":1", "0.0"}, {"", ":1", ""},
	} {
		if got := figure(c.text, c.format); got != c.want {
			t.Errorf("figure(%q, %q) = %q, want %q", c.text, c.format, got, c.want)
		}
	}
}
