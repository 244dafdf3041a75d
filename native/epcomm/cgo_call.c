//go:build cuda

#include "src/call.c"
