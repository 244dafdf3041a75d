/* The entries of a kernel that may be launched in two halves. NAME_async sends, NAME_wait receives, and the kernel
 * NAME does both. All blocks of a grid must run at the same time.
 *
 * EP_HALVES_OF(name, run, arguments, send, receive): `run` gets a lambda as its second argument and calls it.
 * `arguments` is the parameter list of this lambda, whose body is `send`, `receive` or both. */
#pragma once

#include "common/check.cuh"

#define EP_HALVES(name, send, receive) EP_HALVES_OF(name, ep_run, (), send(a), receive(a))
#define EP_HALVES_OF(name, run, arguments, send, receive)                    \
  EP_ENTRY(EP_THREADS, 1) name##_async(const __grid_constant__ EpArgs a) {   \
    run(a, [&] arguments { send; });                                         \
  }                                                                          \
  EP_ENTRY(EP_THREADS, 1) name##_wait(const __grid_constant__ EpArgs a) {    \
    run(a, [&] arguments { receive; });                                      \
  }                                                                          \
  EP_ENTRY(EP_THREADS, 1) name(const __grid_constant__ EpArgs a) {           \
    run(a, [&] arguments {                                                   \
      send;                                                                  \
      receive;                                                               \
    });                                                                      \
  }
