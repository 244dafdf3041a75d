/* Tests the pack reader with damaged packs, as a libFuzzer target or as a program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "epcomm.h"
#include "pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads a pack, and returns whether it is valid. */
static int read_pack(const uint8_t *data, size_t size) {
  EpcommInfo info;
  char text[EPCOMM_TEXT];
  uint8_t *copy = malloc(size + 1); /* for sanitizers */
  Pack p;
  memset(&info, 0, sizeof info);
  info.size = sizeof info;
  if (size > 0) memcpy(copy, data, size);
  int valid = epcomm_check_pack(copy, size, &info, text) == EPCOMM_OK;
  if (valid && pack_read(&p, copy, size, text) == 0) {
    volatile size_t sum = 0;
    for (uint32_t i = 0; i < pack_count(&p, PACK_CONFIGS); i++) sum += strlen(pack_text(&p, p.configs[i].key));
    for (uint32_t i = 0; i < pack_count(&p, PACK_MODULES); i++)
      sum += p.cubins[p.modules[i].offset] + p.cubins[p.modules[i].offset + p.modules[i].bytes - 1];
    for (uint32_t t = 1; t <= p.head->max_tokens && t < 100; t++)
      sum += pack_find(&p, 0, 0, 0, 4, t, NULL)->plan;
    pack_free(&p);
  }
  free(copy);
  return valid;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  read_pack(data, size);
  return 0;
}

#ifndef LIBFUZZER
static uint64_t state = 1;
static uint32_t draw(uint32_t below) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return below == 0 ? 0 : (uint32_t)(state >> 33) % below;
}

static void seal(uint8_t *data, size_t size) {
  if (size < sizeof(PackHeader)) return;
  uint64_t bytes = size;
  memcpy(data + offsetof(PackHeader, file_bytes), &bytes, 8);
  sha256(data + PACK_DIGEST_FROM, size - PACK_DIGEST_FROM, data + offsetof(PackHeader, digest));
}

static size_t shrink(uint8_t *data) {
  PackHeader h;
  memcpy(&h, data, sizeof h);
  for (uint32_t i = 0; i < h.sections[PACK_MODULES].count; i++) {
    uint64_t place[2] = {0, 64};
    memcpy(data + h.sections[PACK_MODULES].offset + i * sizeof(PackModule), place, sizeof place);
  }
  h.sections[PACK_MANIFEST].count = 0;
  h.sections[PACK_CUBINS].offset = h.sections[PACK_MANIFEST].offset;
  h.sections[PACK_CUBINS].count = 64;
  memcpy(data, &h, sizeof h);
  size_t size = (size_t)h.sections[PACK_CUBINS].offset + 64;
  seal(data, size);
  return size;
}

static int equal_lookups(uint8_t *data, size_t size) {
  enum { MANY = 20000 };
  PackHeader h;
  PackLookup first;
  char text[EPCOMM_TEXT] = "";
  size_t at = (size + 15) / 16 * 16;
  memcpy(&h, data, sizeof h);
  memcpy(&first, data + h.sections[PACK_LOOKUPS].offset, sizeof first);
  for (size_t i = 0; i < MANY; i++) memcpy(data + at + i * sizeof first, &first, sizeof first);
  h.sections[PACK_LOOKUPS].offset = at;
  h.sections[PACK_LOOKUPS].count = MANY;
  memcpy(data, &h, sizeof h);
  seal(data, at + MANY * sizeof first);
  EpcommStatus s = epcomm_check_pack(data, at + MANY * sizeof first, NULL, text);
  if (s != EPCOMM_OK && strstr(text, "20000 look-ups") != NULL) return 0;
  printf("20,000 equal look-ups: %s: %s\n", epcomm_status_name(s), text);
  return 1;
}

/* Returns 0 if the reader refuses a pack whose last string has no end. */
static int endless_string(uint8_t *data, size_t size) {
  PackHeader h;
  char text[EPCOMM_TEXT] = "";
  memcpy(&h, data, sizeof h);
  data[h.sections[PACK_STRINGS].offset + h.sections[PACK_STRINGS].count - 1] = 'x';
  seal(data, size);
  EpcommStatus s = epcomm_check_pack(data, size, NULL, text);
  if (s != EPCOMM_OK && strstr(text, "the last string has no end") != NULL) return 0;
  printf("a string without an end: %s: %s\n", epcomm_status_name(s), text);
  return 1;
}

int main(int argc, char **argv) {
  static uint8_t whole[1 << 24], data[1 << 24];
  FILE *f = argc > 1 ? fopen(argv[1], "rb") : NULL;
  size_t size = f != NULL ? fread(whole, 1, sizeof whole, f) : 0;
  int runs = argc > 2 ? atoi(argv[2]) : 20000, read = 0;
  if (f != NULL) fclose(f);
  if (size < sizeof(PackHeader)) {
    fprintf(stderr, "usage: epcomm-fuzz PACK [RUNS]\n");
    return 2;
  }
  size = shrink(whole);
  size_t records = (size_t)((const PackHeader *)(const void *)whole)->sections[PACK_STRINGS].offset;
  char text[EPCOMM_TEXT];
  if (epcomm_check_pack(whole, size, NULL, text) != EPCOMM_OK) {
    printf("the unchanged pack: %s\n", text);
    return 1;
  }
  memcpy(data, whole, size);
  if (equal_lookups(data, size) != 0) return 1;
  memcpy(data, whole, size);
  if (endless_string(data, size) != 0) return 1;
  for (int i = 0; i < runs; i++) {
    size_t n = size;
    memcpy(data, whole, size);
    for (uint32_t edits = 1 + draw(4); edits > 0; edits--) {
      size_t at = draw(3) == 0 ? draw(sizeof(PackHeader)) : draw((uint32_t)records);
      uint32_t values[] = {0, 1, 0xffffffffu, 0x7fffffffu, 0x80000000u, draw(1u << 20), draw(64), 0x10000u};
      uint32_t v = values[draw(8)];
      if (draw(2) == 0) memcpy(data + at / 4 * 4, &v, 4);
      else data[at] ^= (uint8_t)(1u << draw(8));
    }
    if (draw(8) == 0) n = draw((uint32_t)size);
    if (draw(8) != 0) seal(data, n);
    read += read_pack(data, n);
  }
  printf("%d mutated packs read without a fault; %d of them were still valid\n", runs, read);
  return 0;
}
#endif
