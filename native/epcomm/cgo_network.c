//go:build cuda

#include "src/network.c"
