// Package docs holds the pages of this folder, so that an installed program can print them.
package docs

import "embed"

// Pages holds the pages, NAME.md. Each begins with a line "# QUESTION" that it answers.
//
//go:embed *.md
var Pages embed.FS
