/* Describes the current call and this thread. Some blocks of a kernel may send while the other blocks receive. */
#pragma once

#include "common/check.cuh"

struct EpCall {
  uint32_t number;
  uint32_t warp, lane, warps;
  uint32_t block, senders, receivers; /* with 0 receivers every block sends and receives */
};

EP_DEVICE EpCall ep_call(const EpArgs &a) {
  uint32_t receivers = static_cast<uint32_t>(a.wait_sms);
  return {ep_number(a), warp_id(), lane_id(), warps_in_block(), blockIdx.x, gridDim.x - receivers, receivers};
}
EP_DEVICE bool ep_sends(const EpCall &c) { return c.block < c.senders; }
EP_DEVICE bool ep_receives(const EpCall &c) { return c.receivers == 0 || c.block >= c.senders; }
