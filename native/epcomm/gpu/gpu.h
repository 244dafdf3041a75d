/* Functions of the driver that tests, examples and the worker need besides the library. If the driver
 * refuses a call, the function prints the error and ends the program. */
#ifndef EPCOMM_GPU_H
#define EPCOMM_GPU_H

#include <stddef.h>
#include <stdint.h>

typedef void *GpuStream, *GpuGraph;

void gpu_use(int device); /* makes the device's primary context current on this thread */
void *gpu_current(void);   /* the context that is current on this thread */
void *gpu_alloc(size_t bytes);
void gpu_free(void *p);
size_t gpu_free_bytes(void);
int gpu_emulated(void);    /* whether the driver is the emulated one */
double gpu_seconds(void); /* the host's clock; on the emulated driver the device's, which slows down on a busy host */
void gpu_upload(void *to, const void *from, size_t bytes, GpuStream stream);   /* `from` must not change until the copy has run */
void gpu_fill(void *to, int byte, size_t bytes, GpuStream stream);
void gpu_copy(void *to, const void *from, size_t bytes, GpuStream stream);     /* on the device */
void gpu_download(void *to, const void *from, size_t bytes, GpuStream stream); /* waits for the stream */
GpuStream gpu_stream(void);
void gpu_stream_free(GpuStream stream);
void gpu_wait(GpuStream stream);
void gpu_capture(GpuStream stream);
GpuGraph gpu_captured(GpuStream stream); /* ready to be replayed */
void gpu_replay(GpuGraph graph, GpuStream stream);
void gpu_graph_free(GpuGraph graph);

/* Kernels of a device binary: one parameter, of any struct. */
void *gpu_load(const void *image);
void *gpu_kernel(void *module, const char *name);
void gpu_unload(void *module);
void gpu_launch(void *kernel, unsigned grid, unsigned block, void *parameter, GpuStream stream);

#endif
