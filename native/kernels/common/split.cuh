/* Kernels that send and receive in one launch, or with EP_SPLIT in two launches with the same call number. The
 * first ends when everything has been sent, and the second receives. Between them the call occupies no SM. The
 * next call's sender starts after this call's receiver has ended. */
#pragma once

/* The name of the entry that sends. With EP_FUSED it also receives. */
#ifdef EP_SPLIT
#define EP_SENDER_NAME(name) name##_send
static const bool EP_FUSED = false;
#else
#define EP_SENDER_NAME(name) name
static const bool EP_FUSED = true;
#endif
#define EP_SENDER(name) EP_SENDER_NAME(name)
#define EP_RECEIVER_NAME(name) name##_recv
#define EP_RECEIVER(name) EP_RECEIVER_NAME(name)
