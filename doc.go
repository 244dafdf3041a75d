// Package epbench is the module's root. It tests which package may import which. The program is cmd/epbench; a
// production runtime links tune/ep and tune/table.
package epbench
