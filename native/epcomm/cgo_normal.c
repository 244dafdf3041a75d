//go:build cuda

#include "src/normal.c"
