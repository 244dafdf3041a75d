//go:build cuda

#include "src/create.c"
