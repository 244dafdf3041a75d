//go:build cuda

#include "src/machine.c"
