//go:build cuda

#include "src/info.c"
