/* Does not compile if driver.h differs from cuda.h. */
#include <cuda.h>

#include "driver.h"

#define SAME(name, condition) typedef char same_##name[(condition) ? 1 : -1]

SAME(launch_size, sizeof(DrvLaunch) == sizeof(CUlaunchConfig));
SAME(launch_stream, offsetof(DrvLaunch, stream) == offsetof(CUlaunchConfig, hStream));
SAME(launch_attributes, offsetof(DrvLaunch, attributes) == offsetof(CUlaunchConfig, attrs));
SAME(launch_count, offsetof(DrvLaunch, count) == offsetof(CUlaunchConfig, numAttrs));
SAME(attribute_size, sizeof(DrvAttribute) == sizeof(CUlaunchAttribute));
SAME(attribute_value, offsetof(DrvAttribute, value) == offsetof(CUlaunchAttribute, value));
SAME(handle_size, sizeof(DrvIpcHandle) == sizeof(CUipcMemHandle));
SAME(memory_size, sizeof(DrvMemory) == sizeof(CUmemGenericAllocationHandle));
SAME(kind_size, sizeof(DrvMemoryKind) == sizeof(CUmemAllocationProp));
SAME(kind_handles, offsetof(DrvMemoryKind, handles) == offsetof(CUmemAllocationProp, requestedHandleTypes));
SAME(kind_where, offsetof(DrvMemoryKind, where) == offsetof(CUmemAllocationProp, location));
SAME(where, sizeof(DrvWhere) == sizeof(CUmemLocation) && offsetof(DrvWhere, id) == offsetof(CUmemLocation, id));
SAME(access, sizeof(DrvAccess) == sizeof(CUmemAccessDesc) && offsetof(DrvAccess, flags) == offsetof(CUmemAccessDesc, flags));
SAME(maps, (int)DRV_MAPS_MEMORY == (int)CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME(files, (int)DRV_SHARES_BY_FILE == (int)CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SAME(by_file, (int)DRV_BY_FILE == (int)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && (int)DRV_PINNED == (int)CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(on_device, (int)DRV_ON_DEVICE == (int)CU_MEM_LOCATION_TYPE_DEVICE && (int)DRV_READ_WRITE == (int)CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(recommended, (int)DRV_RECOMMENDED == (int)CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
SAME(pointer_size, sizeof(DrvPointer) == sizeof(CUdeviceptr));
SAME(early, (int)DRV_ATTRIBUTE_EARLY == (int)CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME(pci, (int)DRV_PCI_BUS == (int)CU_DEVICE_ATTRIBUTE_PCI_BUS_ID && (int)DRV_PCI_SLOT == (int)CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID &&
              (int)DRV_PCI_DOMAIN == (int)CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
SAME(sms, (int)DRV_SMS == (int)CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(major, (int)DRV_MAJOR == (int)CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(minor, (int)DRV_MINOR == (int)CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(local, (int)DRV_FUNCTION_LOCAL == (int)CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME(dynamic, (int)DRV_FUNCTION_SHARED == (int)CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(threads, (int)DRV_FUNCTION_THREADS == (int)CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(stack, (int)DRV_LIMIT_STACK == (int)CU_LIMIT_STACK_SIZE);
SAME(portable, (int)DRV_HOST_PORTABLE == CU_MEMHOSTALLOC_PORTABLE);
SAME(mapped, (int)DRV_HOST_MAPPED == CU_MEMHOSTALLOC_DEVICEMAP);
SAME(timing, (int)DRV_EVENT_NO_TIMING == (int)CU_EVENT_DISABLE_TIMING);
SAME(peer_access, (int)DRV_IPC_PEER_ACCESS == (int)CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
SAME(ordinal, (int)DRV_POINTER_DEVICE == (int)CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(already, (int)DRV_PEER_ALREADY == (int)CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
SAME(not_initialized, (int)DRV_NOT_INITIALIZED == (int)CUDA_ERROR_NOT_INITIALIZED);
