//go:build cuda

#include "src/pack.c"
