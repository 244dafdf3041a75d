//go:build cuda

#include "src/share.c"
