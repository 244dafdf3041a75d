//go:build cuda

#include "src/exchange.c"
