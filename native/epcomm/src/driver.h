/* Declares the part of the CUDA driver that the library calls. dlopen opens the driver, so that programs start on
 * hosts without a GPU. */
#ifndef EPCOMM_DRIVER_H
#define EPCOMM_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef int DrvResult;
typedef int DrvDevice;
typedef uint64_t DrvPointer, DrvMemory;
typedef void *DrvContext, *DrvModule, *DrvFunction, *DrvStream, *DrvEvent;

typedef struct DrvIpcHandle {
  char bytes[64];
} DrvIpcHandle;

typedef struct DrvWhere {
  int type, id;
} DrvWhere;

typedef struct DrvMemoryKind {
  int type, handles;
  DrvWhere where;
  void *metadata;
  char flags[8];
} DrvMemoryKind;

typedef struct DrvAccess {
  DrvWhere where;
  int flags;
} DrvAccess;

typedef struct DrvAttribute {
  int id;
  int pad;
  union {
    char bytes[64];
    int early;
  } value;
} DrvAttribute;

typedef struct DrvLaunch {
  unsigned grid[3], block[3], shared;
  DrvStream stream;
  DrvAttribute *attributes;
  unsigned count;
} DrvLaunch;

enum {
  DRV_SMS = 16, DRV_PCI_BUS = 33, DRV_PCI_SLOT = 34, DRV_PCI_DOMAIN = 50, DRV_MAJOR = 75, DRV_MINOR = 76,
  DRV_MAPS_MEMORY = 102, DRV_SHARES_BY_FILE = 103, DRV_PINNED = 1, DRV_ON_DEVICE = 1, DRV_BY_FILE = 1, DRV_READ_WRITE = 3, DRV_RECOMMENDED = 1,
  DRV_FUNCTION_LOCAL = 3, DRV_FUNCTION_SHARED = 8, DRV_FUNCTION_THREADS = 0,
  DRV_LIMIT_STACK = 0,
  DRV_ATTRIBUTE_EARLY = 6,
  DRV_HOST_PORTABLE = 1, DRV_HOST_MAPPED = 2,
  DRV_EVENT_NO_TIMING = 2,
  DRV_IPC_PEER_ACCESS = 1,
  DRV_POINTER_DEVICE = 9,
  DRV_NOT_INITIALIZED = 3, DRV_PEER_ALREADY = 704
};

enum { DRIVER_WORDS = 192 };

typedef struct Driver {
  DrvResult (*init)(unsigned);
  DrvResult (*error_name)(DrvResult, const char **);
  DrvResult (*error_string)(DrvResult, const char **);
  DrvResult (*device_count)(int *);
  DrvResult (*device_get)(DrvDevice *, int);
  DrvResult (*device_attribute)(int *, int, DrvDevice);
  DrvResult (*device_name)(char *, int, DrvDevice);
  DrvResult (*device_memory)(size_t *, DrvDevice);
  DrvResult (*can_access_peer)(int *, DrvDevice, DrvDevice);
  DrvResult (*context_retain)(DrvContext *, DrvDevice);
  DrvResult (*context_release)(DrvDevice);
  DrvResult (*context_get)(DrvContext *);
  DrvResult (*context_set)(DrvContext);
  DrvResult (*context_wait)(void);
  DrvResult (*context_get_limit)(size_t *, int);
  DrvResult (*context_set_limit)(int, size_t);
  DrvResult (*enable_peer)(DrvContext, unsigned);
  DrvResult (*memory_info)(size_t *, size_t *);
  DrvResult (*alloc)(DrvPointer *, size_t);
  DrvResult (*free)(DrvPointer);
  DrvResult (*granularity)(size_t *, const DrvMemoryKind *, int);
  DrvResult (*memory_create)(DrvMemory *, size_t, const DrvMemoryKind *, unsigned long long);
  DrvResult (*memory_release)(DrvMemory);
  DrvResult (*memory_export)(void *, DrvMemory, int, unsigned long long);
  DrvResult (*memory_import)(DrvMemory *, void *, int);
  DrvResult (*address_reserve)(DrvPointer *, size_t, size_t, DrvPointer, unsigned long long);
  DrvResult (*address_free)(DrvPointer, size_t);
  DrvResult (*map)(DrvPointer, size_t, size_t, DrvMemory, unsigned long long);
  DrvResult (*unmap)(DrvPointer, size_t);
  DrvResult (*set_access)(DrvPointer, size_t, const DrvAccess *, size_t);
  DrvResult (*host_alloc)(void **, size_t, unsigned);
  DrvResult (*host_pointer)(DrvPointer *, void *, unsigned);
  DrvResult (*host_free)(void *);
  DrvResult (*fill)(DrvPointer, unsigned char, size_t);
  DrvResult (*upload)(DrvPointer, const void *, size_t);
  DrvResult (*ipc_handle)(DrvIpcHandle *, DrvPointer);
  DrvResult (*ipc_open)(DrvPointer *, DrvIpcHandle, unsigned);
  DrvResult (*ipc_close)(DrvPointer);
  DrvResult (*module_load)(DrvModule *, const void *);
  DrvResult (*module_unload)(DrvModule);
  DrvResult (*module_function)(DrvFunction *, DrvModule, const char *);
  DrvResult (*function_get)(int *, int, DrvFunction);
  DrvResult (*function_set)(DrvFunction, int, int);
  DrvResult (*function_blocks)(int *, DrvFunction, int, size_t);
  DrvResult (*launch)(const DrvLaunch *, DrvFunction, void **, void **);
  DrvResult (*event_create)(DrvEvent *, unsigned);
  DrvResult (*event_destroy)(DrvEvent);
  DrvResult (*event_record)(DrvEvent, DrvStream);
  DrvResult (*stream_wait)(DrvStream, DrvEvent, unsigned);
  DrvResult (*stream_id)(DrvStream, uint64_t *);         /* called during a capture, it breaks the capture */
  DrvResult (*stream_capturing)(DrvStream, int *status); /* status 0: no capture */
  DrvResult (*pointer_get)(void *, int, DrvPointer);
} Driver;

/* Returns the driver. The first call loads it. Returns NULL if this fails, or if this process was forked after the
 * first call. Then `text` (EPCOMM_TEXT bytes) holds the reason. */
const Driver *driver_open(char *text);

void driver_describe(const Driver *driver, DrvResult result, char text[DRIVER_WORDS]);

#endif
