/* Calls the CUDA driver. If the driver refuses a call, these functions print the error and end the program. */
#ifndef EPCOMM_GPU_H
#define EPCOMM_GPU_H

#include <stddef.h>
#include <stdint.h>

typedef void *GpuStream, *GpuGraph;

void gpu_use(int device);
void *gpu_current(void);
void *gpu_alloc(size_t bytes);
void gpu_free(void *p);
size_t gpu_free_bytes(void);
int gpu_emulated(void);
double gpu_seconds(void); /* reads the host's clock or, on the emulated driver, the emulated device's clock */
void gpu_upload(void *to, const void *from, size_t bytes, GpuStream stream);   /* `from` must not change until the copy has run */
void gpu_fill(void *to, int byte, size_t bytes, GpuStream stream);
void gpu_copy(void *to, const void *from, size_t bytes, GpuStream stream);
void gpu_download(void *to, const void *from, size_t bytes, GpuStream stream);
GpuStream gpu_stream(void);
void gpu_stream_free(GpuStream stream);
void gpu_wait(GpuStream stream);
void gpu_capture(GpuStream stream);
GpuGraph gpu_captured(GpuStream stream);
void gpu_replay(GpuGraph graph, GpuStream stream);
void gpu_graph_free(GpuGraph graph);

/* These load and launch kernels whose only parameter is a struct. */
void *gpu_load(const void *image);
void *gpu_kernel(void *module, const char *name);
void gpu_unload(void *module);
void gpu_launch(void *kernel, unsigned grid, unsigned block, void *parameter, GpuStream stream);

#endif
