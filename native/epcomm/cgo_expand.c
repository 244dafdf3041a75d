//go:build cuda

#include "src/expand.c"
