//go:build cuda

#include "src/letters.c"
