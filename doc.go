// Package epbench is the module's root. It holds the test of which package may import
// which. The program is cmd/epbench; a production runtime links tune/ep and tune/table.
package epbench
