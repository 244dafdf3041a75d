// Package epbench is the root of the module. Its tests check the imports of all packages. The program is cmd/epbench.
package epbench
