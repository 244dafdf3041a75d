/* Continues without lost ranks, and takes lost ranks back. all_gather needs every rank, so living ranks wait for each
 * other in a kernel instead, in two stages. After stage 1, no kernel of an earlier call runs on any living rank. After
 * stage 2, all living ranks have reset their memory. */
#include <stdio.h>
#include <string.h>

#include "comm.h"

uint64_t survive_everyone(const EpComm *c) { return c->options.ranks >= 64 ? UINT64_MAX : ((uint64_t)1 << c->options.ranks) - 1; }

int survive_lost(const EpComm *c) { return c->alive != survive_everyone(c); }

EpcommStatus survive_check(EpComm *c) {
  const EpcommOptions *o = &c->options;
  const uint64_t me = (uint64_t)1 << o->rank;
  if (o->survivors < EPCOMM_NO_SURVIVORS || o->survivors > EPCOMM_REFUSE)
    return comm_say(c, EPCOMM_INVALID, "survivors: %d is not an EpcommSurvivors", o->survivors);
  if (o->survivors && !(c->pack.head->flags & PACK_SURVIVORS))
    return comm_say(c, EPCOMM_PACK, "survivors: the kernels of this pack wait for every rank; make a pack with epbench pack --survivors, in "
                    "layout masked, rank or rank:packed for one host");
  if (o->joins != 0 && (!o->survivors || !(o->joins & me) || (o->joins & ~survive_everyone(c))))
    return comm_say(c, EPCOMM_INVALID, "joins: 0x%llx must be a set of ranks below %d with rank %d in it, and survivors must be set",
                    (unsigned long long)o->joins, o->ranks, o->rank);
  return EPCOMM_OK;
}

static EpcommStatus write_peers(EpComm *c) {
  uint64_t peers[EP_MAX_RANKS] = {0};
  for (int r = 0; r < c->options.ranks && r < EP_MAX_RANKS; r++)
    if (c->alive >> r & 1) peers[r] = c->heap[r];
  DrvResult r = c->driver->upload(c->heap[c->options.rank] + c->at.survival, peers, sizeof peers);
  return r == 0 ? EPCOMM_OK : comm_driver_error(c, r, "write the ranks' heaps");
}

EpcommStatus survive_begin(EpComm *c) {
  if (!(c->pack.head->flags & PACK_SURVIVORS)) return EPCOMM_OK;
  DrvResult r = c->driver->fill(c->heap[c->options.rank] + c->at.survival, 0, sizeof(EpSurvival));
  return r == 0 ? write_peers(c) : comm_driver_error(c, r, "fill the heap");
}

static void list(uint64_t set, char *text, size_t size) {
  size_t used = 0;
  text[0] = 0;
  for (int r = 0; r < EPCOMM_MAX_RANKS && used + 4 < size; r++)
    if (set >> r & 1) used += (size_t)snprintf(text + used, size - used, used ? ",%d" : "%d", r);
}

static EpcommStatus missing(EpComm *c, uint64_t set, int rank) {
  char mine[128], theirs[128];
  uint64_t other = c->lost->differs[rank];
  list(set, mine, sizeof mine);
  list(other & 0xffffffff, theirs, sizeof theirs);
  if (other != 0)
    return comm_say(c, EPCOMM_PEER, "rank %d waits for ranks %s, but rank %d waits for ranks %s; pass the same set on all ranks", rank, theirs, c->options.rank, mine);
  return comm_say(c, EPCOMM_PEER, "ranks %s must all make this call, but rank %d did not make it within %.3g s; shrink "
                  "again without rank %d", mine, rank, 2 * (double)c->options.deadline_ns / 1e9, rank);
}

static EpcommStatus meet(EpComm *c, uint64_t set, int stage) {
  union {
    EpMeetArgs of;
    EpArgs room;
  } a;
  memset(&a, 0, sizeof a);
  for (int r = 0; r < c->options.ranks; r++)
    if (set >> r & 1) a.of.heap[r] = (uint8_t *)(uintptr_t)c->heap[r];
  a.of.at = c->at.survival;
  a.of.lost = (EpLost *)(uintptr_t)c->lost_device;
  a.of.deadline_ns = 2 * c->options.deadline_ns;
  a.of.set = (uint32_t)set;
  if (stage == 1) c->attempts++;
  a.of.token = (uint32_t)comm_place().process[0] ^ c->attempts << 8;
  if (a.of.token == 0) a.of.token = 1;
  a.of.rank = c->options.rank;
  a.of.stage = stage;
  EpcommStatus s = comm_launch_now(c, c->meet, 1, 32, 0, &a, "meet", NULL);
  DrvResult r = s == EPCOMM_OK ? c->driver->context_wait() : 0;
  if (r != 0) s = comm_driver_error(c, r, "meet the living ranks");
  for (int rank = 0; rank < c->options.ranks && s == EPCOMM_OK; rank++)
    if (rank != c->options.rank && set >> rank & 1 && c->lost->met[rank] == 0) s = missing(c, set, rank);
  return s;
}

static EpcommStatus reset_to(EpComm *c, uint64_t alive) {
  DrvResult r = c->driver->context_wait();
  if (r != 0) return comm_driver_error(c, r, "wait for the device");
  EpcommStatus s = meet(c, alive, 1);
  if (s != EPCOMM_OK) return s;
  c->alive = c->gathers = alive;
  s = comm_clear(c);
  if (s == EPCOMM_OK) s = write_peers(c);
  if (s == EPCOMM_OK) s = meet(c, alive, 2);
  if (s == EPCOMM_OK) share_close(c, ~alive); /* their memory is free for new processes */
  return s;
}

EpcommStatus survive_reset(EpComm *c, uint64_t alive) {
  DrvContext before = NULL;
  c->driver->context_get(&before);
  DrvResult r = c->driver->context_set(c->context);
  EpcommStatus s = r == 0 ? reset_to(c, alive) : comm_driver_error(c, r, "primary context");
  c->driver->context_set(before);
  return s;
}

EpcommStatus survive_part(EpComm *c) { return meet(c, c->alive, 1); }

static EpcommStatus check_set(EpComm *c, uint64_t set, const char *what) {
  const uint64_t me = (uint64_t)1 << c->options.rank;
  if (!c->options.survivors) return comm_say(c, EPCOMM_INVALID, "%s: this EpComm was created without survivors; set the option with a pack of epbench pack "
                    "--survivors, or start all ranks again", what);
  if (!(set & me) || (set & ~survive_everyone(c)))
    return comm_say(c, EPCOMM_INVALID, "%s: 0x%llx is not a set of ranks below %d with rank %d in it", what, (unsigned long long)set, c->options.ranks,
                    c->options.rank);
  return EPCOMM_OK;
}

EpcommStatus epcomm_shrink(EpComm *c, uint64_t alive) {
  EpcommStatus s = check_set(c, alive, "shrink");
  if (s == EPCOMM_OK && (alive & ~c->alive))
    s = comm_say(c, EPCOMM_INVALID, "shrink: 0x%llx names ranks that are already lost; only 0x%llx are alive; use epcomm_grow", (unsigned long long)alive,
                 (unsigned long long)c->alive);
  return s == EPCOMM_OK ? survive_reset(c, alive) : s;
}

/* Opens the heaps of ranks that come back, and resets memory. Even after an error it takes part in every exchange,
 * because ranks in epcomm_create wait for this rank there. */
static EpcommStatus grow_to(EpComm *c, uint64_t alive) {
  const uint64_t before = c->gathers;
  DrvResult r = c->driver->context_wait();
  EpcommStatus s = r == 0 ? EPCOMM_OK : comm_driver_error(c, r, "wait for the device");
  c->gathers = alive;
  s = comm_agree(c, s);
  if (s != EPCOMM_GATHER) s = share_heaps(c, s, 1);
  if (s == EPCOMM_OK) {
    c->alive = alive;
    s = comm_clear(c);
  }
  if (s == EPCOMM_OK) s = write_peers(c);
  if (s == EPCOMM_OK) call_prepare(c);
  if (s != EPCOMM_GATHER) s = exchange(c, STEP_CREATE, s, NULL, NULL, 0);
  if (c->alive != alive) {
    c->gathers = before;
    share_close(c, ~c->alive); /* else a rank that tries again may find no memory for its heap */
  }
  return s;
}

EpcommStatus epcomm_grow(EpComm *c, uint64_t alive) {
  DrvContext before = NULL;
  EpcommStatus s = check_set(c, alive, "grow");
  if (s != EPCOMM_OK) return s;
  c->driver->context_get(&before);
  DrvResult r = c->driver->context_set(c->context);
  s = r == 0 ? grow_to(c, alive) : comm_driver_error(c, r, "primary context");
  c->driver->context_set(before);
  return s;
}

EpcommStatus epcomm_survivors(EpComm *c, uint64_t *alive, uint64_t *dropped) {
  if (alive != NULL) *alive = c->alive;
  if (dropped != NULL) *dropped = c->lost != NULL ? c->lost->dropped : 0;
  return EPCOMM_OK;
}
