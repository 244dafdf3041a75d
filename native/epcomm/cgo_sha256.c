//go:build cuda

#include "src/sha256.c"
