/* Computes the key of this machine. kernels/cuda/drive/machine.go must compute the same key. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "comm.h"

enum { NVLINKS_MOST = 18, MOST_GPUS = 64 };

typedef struct NvmlPci {
  char legacy[16];
  unsigned domain, bus, device, pci_device, pci_subsystem;
  char id[32];
} NvmlPci;

typedef struct Nvml {
  int (*init)(void);
  int (*by_bus)(const char *, void **);
  int (*pci)(void *, NvmlPci *);
  int (*link)(void *, unsigned, int *);
  int (*shutdown)(void);
} Nvml;

static int find(void *library, const char *name, void *slot) {
  void *f = dlsym(library, name);
  if (f != NULL) memcpy(slot, &f, sizeof f);
  return f != NULL;
}

static int nvml_open(Nvml *n) {
  void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  return library != NULL && find(library, "nvmlInit_v2", &n->init) && find(library, "nvmlShutdown", &n->shutdown) &&
         find(library, "nvmlDeviceGetHandleByPciBusId_v2", &n->by_bus) && find(library, "nvmlDeviceGetPciInfo_v3", &n->pci) &&
         find(library, "nvmlDeviceGetNvLinkState", &n->link) && n->init() == 0;
}

static void *nvml_device(const Nvml *n, const Driver *d, int gpu) {
  DrvDevice device;
  int domain = 0, bus = 0, slot = 0;
  char id[32];
  void *handle = NULL;
  if (d->device_get(&device, gpu) != 0 || d->device_attribute(&domain, DRV_PCI_DOMAIN, device) != 0 ||
      d->device_attribute(&bus, DRV_PCI_BUS, device) != 0 || d->device_attribute(&slot, DRV_PCI_SLOT, device) != 0)
    return NULL;
  snprintf(id, sizeof id, "%08x:%02x:%02x.0", (unsigned)domain, (unsigned)bus, (unsigned)slot);
  return n->by_bus(id, &handle) == 0 ? handle : NULL;
}

static int nvlinks(const Nvml *n, void *device) {
  int links = 0, active = 0;
  for (unsigned i = 0; device != NULL && i < NVLINKS_MOST; i++)
    if (n->link(device, i, &active) == 0 && active == 1) links++;
  return links;
}

static int apart(const Driver *d, int gpus) {
  for (int a = 0; a < gpus; a++)
    for (int b = 0; b < gpus; b++) {
      DrvDevice from, to;
      int can = 0;
      if (a == b) continue;
      if (d->device_get(&from, a) != 0 || d->device_get(&to, b) != 0 || d->can_access_peer(&can, from, to) != 0 || !can) return 1;
    }
  return 0;
}

static void name_link(const Nvml *n, int nvml_works, const Driver *d, EpcommMachine *m) {
  int least = 0, most = 0;
  for (int g = 0; nvml_works && g < m->gpus; g++) {
    int links = nvlinks(n, nvml_device(n, d, g));
    if (g == 0 || links < least) least = links;
    if (links > most) most = links;
  }
  if (least != most) snprintf(m->link, sizeof m->link, "mixed");
  else if (most > 0) snprintf(m->link, sizeof m->link, "nv%d", most);
  else snprintf(m->link, sizeof m->link, "%s", m->gpus == 1 ? "none" : apart(d, m->gpus) ? "apart" : "pcie");
}

/* Describes device 0, and assumes that a host's GPUs are alike. */
static DrvResult ask_driver(const Driver *d, EpcommMachine *m) {
  DrvDevice device;
  size_t memory = 0;
  int major = 0, minor = 0;
  DrvResult r = d->device_count(&m->gpus);
  if (r == 0) r = d->device_get(&device, 0);
  if (r == 0) r = d->device_name(m->name, (int)sizeof m->name, device);
  if (r == 0) r = d->device_memory(&memory, device);
  if (r == 0) r = d->device_attribute(&m->sms, DRV_SMS, device);
  if (r == 0) r = d->device_attribute(&major, DRV_MAJOR, device);
  if (r == 0) r = d->device_attribute(&minor, DRV_MINOR, device);
  m->memory = memory;
  if (m->gpus > MOST_GPUS) m->gpus = MOST_GPUS;
  snprintf(m->arch, sizeof m->arch, "sm_%d%d", major, minor);
  return r;
}

EpcommStatus epcomm_machine(EpcommMachine *out, char *text) {
  char none[EPCOMM_TEXT], words[DRIVER_WORDS];
  EpcommMachine m = {.size = sizeof m};
  Nvml nvml;
  NvmlPci pci;
  if (text == NULL) text = none;
  const Driver *d = driver_open(text);
  if (d == NULL) return EPCOMM_DRIVER;
  DrvResult r = ask_driver(d, &m);
  if (r != 0) {
    driver_describe(d, r, words);
    snprintf(text, EPCOMM_TEXT, "machine: the driver does not describe GPU 0: %s", words);
    return EPCOMM_DRIVER;
  }
  int nvml_works = nvml_open(&nvml);
  void *first = nvml_works ? nvml_device(&nvml, d, 0) : NULL;
  if (first != NULL && nvml.pci(first, &pci) == 0)
    snprintf(m.pci_id, sizeof m.pci_id, "%04x:%04x", pci.pci_device & 0xffff, pci.pci_device >> 16);
  name_link(&nvml, nvml_works, d, &m);
  if (nvml_works) nvml.shutdown();
  snprintf(m.key, sizeof m.key, "cuda/%s/%s/sms=%d/mem=%llug/link=%s", m.pci_id, m.arch, m.sms,
           (unsigned long long)(m.memory >> 30), m.link);
  comm_give(out, &m, sizeof m);
  return EPCOMM_OK;
}
