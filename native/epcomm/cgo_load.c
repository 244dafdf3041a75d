//go:build cuda

#include "src/load.c"
