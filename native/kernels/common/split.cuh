/* Names the entries of kernels that send and receive. Without EP_SPLIT, one launch does both. With EP_SPLIT, a call has
 * two launches. The first ends when everything has been sent, and the second receives. Between the launches the call
 * occupies no SM. The next call's first launch starts after this call's second launch has ended. */
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
