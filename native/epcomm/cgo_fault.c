//go:build cuda

#include "src/fault.c"
