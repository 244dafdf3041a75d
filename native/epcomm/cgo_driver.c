//go:build cuda

#include "src/driver.c"
