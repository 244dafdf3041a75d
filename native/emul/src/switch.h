/* Switches between the stacks of fibers. */
#ifndef EP_EMUL_SWITCH_H
#define EP_EMUL_SWITCH_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) && !defined(EP_EMUL_UCONTEXT)

typedef void *EmulContext;

extern "C" void emul_switch(EmulContext *from, EmulContext to);
asm(R"(
.text
.globl emul_switch
.type emul_switch,@function
emul_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emul_switch,.-emul_switch
)");

/* Prepares a stack: the first switch to it calls `entry`, which must never return. */
static inline void emul_prepare(EmulContext *c, uint8_t *stack, size_t bytes, void (*entry)()) {
  uintptr_t top = (reinterpret_cast<uintptr_t>(stack) + bytes) & ~uintptr_t(15);
  void **sp = reinterpret_cast<void **>(top - 16);
  *sp = reinterpret_cast<void *>(entry); /* after `ret`, rsp is 8 modulo 16, as after a call */
  for (int i = 0; i < 6; i++) *--sp = nullptr;
  *c = sp;
}
static inline void emul_jump(EmulContext *from, EmulContext *to) { emul_switch(from, *to); }
/* Loads the stack of a fiber into the processor's cache. The fiber will run soon. */
static inline void emul_prefetch(const EmulContext &c) { __builtin_prefetch(c); }

#else

#include <ucontext.h>

typedef ucontext_t EmulContext;

static inline void emul_prepare(EmulContext *c, uint8_t *stack, size_t bytes, void (*entry)()) {
  getcontext(c);
  c->uc_stack.ss_sp = stack;
  c->uc_stack.ss_size = bytes;
  c->uc_link = nullptr;
  makecontext(c, entry, 0);
}
static inline void emul_jump(EmulContext *from, EmulContext *to) { swapcontext(from, to); }
static inline void emul_prefetch(const EmulContext &) {}

#endif

#endif
