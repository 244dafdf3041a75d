//go:build cuda

#include "src/survive.c"
