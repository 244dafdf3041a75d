//go:build cuda

#include "src/heap.c"
