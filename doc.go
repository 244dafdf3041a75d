// Package epbench is the module's root; it holds only the test of which
// package may import which. The program is cmd/epbench, the runtime library
// tune/plan.
package epbench
