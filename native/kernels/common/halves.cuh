/* The entries of a kernel that may be launched in two halves. NAME_async sends, NAME_wait receives, and the kernel
 * NAME does both. All blocks of a grid must run at the same time. */
#pragma once

#include "common/check.cuh"

#define EP_HALVES(name, send, receive)                                       \
  EP_ENTRY(EP_THREADS, 1) name##_async(const __grid_constant__ EpArgs a) {   \
    ep_run(a, [&] { send(a); });                                             \
  }                                                                          \
  EP_ENTRY(EP_THREADS, 1) name##_wait(const __grid_constant__ EpArgs a) {    \
    ep_run(a, [&] { receive(a); });                                          \
  }                                                                          \
  EP_ENTRY(EP_THREADS, 1) name(const __grid_constant__ EpArgs a) {           \
    ep_run(a, [&] {                                                          \
      send(a);                                                               \
      receive(a);                                                            \
    });                                                                      \
  }
