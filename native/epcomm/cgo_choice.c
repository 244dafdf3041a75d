//go:build cuda

#include "src/choice.c"
