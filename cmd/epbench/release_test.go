package main

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/testfile"
)

func steps(t *testing.T, targets ...string) string {
	t.Helper()
	out, err := exec.Command("make", append([]string{"-n", "-B", "-C", "../.."}, targets...)...).CombinedOutput()
	if err != nil {
		t.Errorf("make %v: %v\n%s", targets, err, out)
	}
	return string(out)
}

// TestRelease: both archives contain programs, man pages and completions.
func TestRelease(t *testing.T) {
	for want, args := range map[string][]string{version: {"release"}, "v9": {"release", "VERSION=v9"}} {
		made := steps(t, args...)
		if !strings.Contains(made, "-X main.version="+want+"'") {
			t.Errorf("make %v: no program is built with version %s", args, want)
		}
		for _, arch := range []string{"amd64", "arm64"} {
			for _, part := range []string{"/epbench ", "/epbench-cuda ", "/epbench-compile ", "/man/man1", "/completions/epbench.", ".tar.gz "} {
				if !strings.Contains(made, "dist/epbench-"+want+"-linux-"+arch+part) {
					t.Errorf("make %v: no step makes %s for %s", args, part, arch)
				}
			}
		}
	}
}

// TestDockerfile: the Dockerfile's make targets make the files that it copies. Its Go version is that of go.mod.
func TestDockerfile(t *testing.T) {
	read := func(name string) string {
		text := testfile.Read(t, "../../"+name)
		return string(text)
	}
	docker, made := read("Dockerfile"), ""
	targets := regexp.MustCompile(`(?m)^RUN make (.*)$`).FindAllStringSubmatch(docker, -1)
	if len(targets) == 0 {
		t.Fatal("the Dockerfile has no line RUN make")
	}
	for _, m := range targets {
		arg, _, _ := strings.Cut(m[1], " PIP=")
		made += steps(t, strings.Fields(arg)...)
	}
	for path := range strings.FieldsSeq(regexp.MustCompile(`(?m)^COPY --from=build (.*) `).FindStringSubmatch(docker)[1]) {
		if file := strings.TrimPrefix(path, "/src/"); !strings.Contains(made, "-o "+file) {
			t.Errorf("COPY --from=build %s: no step makes it", path)
		}
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read("go.mod"))[1]
	if !strings.Contains(docker, "FROM golang:"+version+"-") {
		t.Errorf("the Dockerfile does not build with Go %s, the version in go.mod", version)
	}
}
