// Package docs holds the pages of this folder, so that an installed program can print them.
package docs

import "embed"

// Pages holds the files NAME.md. The title of a page is the question that it answers.
//
//go:embed *.md
var Pages embed.FS
