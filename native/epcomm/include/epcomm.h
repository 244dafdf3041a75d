/* epcomm: expert-parallel dispatch and combine with the kernels that epbench has tuned.
 *
 * A pack (a file made by epbench pack) holds kernels, and determines which of them a call launches.
 * One EpComm is one rank. All ranks create their EpComms together. Calls run on your own streams,
 * eagerly or inside CUDA graphs:
 *
 *   EpcommOptions o = {sizeof o};
 *   o.pack = "model.pack"; o.rank = rank; o.ranks = ranks; o.device = device;
 *   o.all_gather = my_all_gather; o.context = my_context;
 *   EpComm *comm; char text[EPCOMM_TEXT];
 *   if (epcomm_create(&comm, &o, text) != EPCOMM_OK) fail(text);
 *
 *   EpcommCall c = {sizeof c};
 *   c.tokens = tokens; c.fullest = fullest; c.x = x; c.topk_ids = ids; c.weights = w;
 *   epcomm_dispatch(comm, &c, stream);       rows by expert are in epcomm_outputs
 *   ... experts write y ...
 *   c.y = y; c.combined = combined;
 *   epcomm_combine(comm, &c, stream);
 *
 * Rules:
 * - All ranks call the functions marked collective.
 * - A slot is the memory of one call in flight. On each slot, all ranks make the same calls in the same
 *   order, with the same values of `fullest`, `routing`, `purpose` and `dtype`. The option `debug` checks that.
 * - Combine the rows of a dispatch before you use its slot again. In layouts masked, rank and rank packed,
 *   dispatches may follow each other on a slot if each has its own outputs.
 * - Only one thread at a time may use an EpComm. Different EpComms are independent.
 * - Every struct begins with its size: set it, and set unused members to 0. Members that an older header
 *   lacks count as 0. If your header is newer than the library, and you set a member that the library does
 *   not know, the call returns EPCOMM_INVALID.
 * - If a wait passes its deadline, the call ends on this rank. Until epcomm_reset, this call and all later
 *   calls and graph replays write NaN to their outputs, and report 0 received rows. The next call and
 *   epcomm_fault return the reason.
 * - Ranks on several hosts (nodes) need options.nodes, a pack made with --nodes, and a process for each
 *   rank. All ranks create and destroy their EpComms in the same order. See docs/multinode.md.
 * - Pointers are device addresses unless the comment says "host memory".
 * - Functions whose comment begins with "Call path" allocate nothing, and never make the host wait.
 */
#ifndef EPCOMM_H
#define EPCOMM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EPCOMM_VERSION 1
#define EPCOMM_TEXT 512     /* bytes of a text, with the terminating 0 */
#define EPCOMM_MAX_RANKS 64 /* over several hosts; on one host 8 */
#define EPCOMM_MAX_SLOTS 8

#if defined(_WIN32)
#define EPCOMM_API
#else
#define EPCOMM_API __attribute__((visibility("default")))
#endif

typedef struct EpComm EpComm;

/* A CUstream (cudaStream_t is the same), or NULL for the default stream. */
typedef void *EpcommStream;

typedef enum EpcommStatus {
  EPCOMM_OK = 0,
  EPCOMM_INVALID = 1,  /* an argument is invalid; nothing was launched */
  EPCOMM_PACK = 2,     /* the pack cannot be read, is damaged, or is for another library */
  EPCOMM_DRIVER = 3,   /* there is no driver, or it returned an error */
  EPCOMM_MACHINE = 4,  /* this GPU cannot run the pack, or cannot reach a peer */
  EPCOMM_DISAGREE = 5, /* ranks have different packs or options, or make different collective calls */
  EPCOMM_GATHER = 6,   /* the all-gather failed */
  EPCOMM_FAULT = 7,    /* a wait passed its deadline: outputs are NaN; reset or destroy */
  EPCOMM_PEER = 8,     /* another rank could not be created; the text says why */
  EPCOMM_NETWORK = 9   /* NVSHMEM is missing, has another version, or returned an error */
} EpcommStatus;

typedef enum EpcommDType {
  EPCOMM_DTYPE_DEFAULT = 0, /* the first dtype of the pack */
  EPCOMM_BF16 = 1,
  EPCOMM_FP8 = 2,           /* e4m3, a float scale for 128 elements */
  EPCOMM_MXFP4 = 3,
  EPCOMM_NVFP4 = 4
} EpcommDType;

/* How received rows lie in memory. You choose it by the option --layout of epbench pack. EpcommCall has the shapes of
 * layout expert. Other layouts take only bf16 and fp8. In this table, R is the number of ranks, T max_tokens, E the
 * number of local experts, H hidden, and K top-k.
 *
 *                 masked                          rank                       rank packed
 * groups          E                               R                          R
 * out             [E, R*T, H]                     [R, T, H]                  [R*T, H]
 * out_scales fp8  [E, H/128, R*T]                 [R*T, H/128]               [R*T, H/128]
 * row_offsets     [E+1] rows per group, total     [R+1] rows per group,      [R+1] first row of each group,
 *                                                 total                      total
 * expert_ids      [E, R] int64, for each source:  [R*T, K] local expert, -1 if it is on another rank
 *                 first row << 32 | rows
 * src_info        [E*R*T, 2] token, top-k index;  [R*T, 2] token, source rank; then [T] data for combine
 *                 then data for combine
 * scale_offsets   unused                          [R*T, K] float: weight, 0 if the expert is on another rank
 *
 * In layouts rank and rank packed, the caller computes the weighted sum over the local experts: y has one row for
 * each (token, rank), and combine adds the ranks' rows.
 *
 * A combine needs the topk_ids of its dispatch. In layout expert, this is the slot's last dispatch. In other layouts,
 * combine also needs what dispatch wrote to row_offsets and src_info (EpcommOutputs.src_info_bytes bytes). If every
 * dispatch has its own row_offsets and src_info, dispatches may be combined in any order, even repeatedly. */
typedef enum EpcommLayout {
  EPCOMM_LAYOUT_EXPERT = 0,
  EPCOMM_LAYOUT_EXPERT_128 = 1, /* each expert's first row is a multiple of 128 */
  EPCOMM_LAYOUT_MASKED = 2,
  EPCOMM_LAYOUT_RANK = 3,
  EPCOMM_LAYOUT_RANK_PACKED = 4
} EpcommLayout;

/* Routing class: how uneven the routing is; see epcomm_classify. */
typedef enum EpcommRouting {
  EPCOMM_ROUTING_DEFAULT = 0, /* in a call: the routing of the options; in the options: EPCOMM_ALL_ROUTINGS */
  EPCOMM_EVEN = 1,
  EPCOMM_SKEWED = 2,
  EPCOMM_CONCENTRATED = 3,
  EPCOMM_HOT_RANK = 4,
  EPCOMM_ALL_ROUTINGS = 5
} EpcommRouting;

/* The part of a layer whose time decides which kernels a call launches. */
typedef enum EpcommPurpose {
  EPCOMM_FOR_PAIR = 0, /* dispatch and combine together */
  EPCOMM_FOR_DISPATCH = 1,
  EPCOMM_FOR_COMBINE = 2,
  EPCOMM_FOR_HALVES = 3 /* calls in halves (send and recv) with other work between them. In layouts masked, rank and
                           rank packed the kernels occupy no SMs between the halves; in other layouts, calls take
                           the kernels of EPCOMM_FOR_PAIR. With reduced precision, the send of a combine ends only when
                           all ranks have begun the combine */
} EpcommPurpose;

/* Gathers `bytes` bytes of every rank, in the order of ranks, into `all`. Both pointers are host memory. Returns 0
 * on success. */
typedef int (*EpcommAllGather)(void *context, const void *mine, void *all, size_t bytes);

/* What happens to top-k ids that name an expert of a lost rank. */
typedef enum EpcommSurvivors {
  EPCOMM_NO_SURVIVORS = 0, /* a lost rank ends all calls */
  EPCOMM_DROP = 1,         /* such ids count as masked; epcomm_survivors counts them */
  EPCOMM_REFUSE = 2        /* such an id is a fault on the rank that passed it; the calls of the other ranks end at
                              their deadline */
} EpcommSurvivors;

typedef struct EpcommOptions {
  size_t size;
  const char *pack;      /* path of the pack, or NULL */
  const void *pack_data; /* without a path: content of the file, in host memory */
  size_t pack_bytes;
  int rank, ranks;
  int device;            /* CUDA ordinal; its primary context is used */
  EpcommAllGather all_gather; /* not needed for one rank */
  void *context;
  uint64_t deadline_ns;  /* longest wait of a kernel for a peer; 0: 10 s */
  int in_flight;         /* number of slots; 0: 1 */
  int streams;           /* streams with calls at the same time; 0: 1 */
  int reduced;           /* 1: accept reduced precision */
  int max_sms;           /* refuse packs whose calls take more SMs; 0: no limit */
  unsigned dtypes;       /* bit 1 << EpcommDType for each dtype to be used; 0: all of the pack */
  int routing;           /* EpcommRouting of calls whose routing is 0 */
  int debug;             /* 1: for every call, compare the arguments of all ranks, check the ids, and check that each
                            tensor is on this rank's GPU */
  uint64_t extra_bytes;  /* bytes for the caller's own outputs; see epcomm_extra */
  int own_outputs;       /* 1: every call passes its outputs, and the library allocates none. The same on all ranks */
  const char *nvshmem;   /* folder with lib/libnvshmem_host.so.3; NULL: $EPBENCH_NVSHMEM, or the linker's search path */
  int nodes;             /* number of hosts; 0: 1. Each host has ranks / nodes consecutive ranks */
  int survivors;         /* EpcommSurvivors, the same on all ranks; see epcomm_shrink */
  int ordered;           /* 1: the caller makes the stream of each recv wait for the stream of its send, so that the
                            library records no events */
  uint64_t joins;        /* 0: all ranks call epcomm_create. Otherwise this rank joins running ranks. `joins` has bit r
                            for each rank r of the new set, which includes this rank. The other ranks pass the same
                            set to epcomm_grow */
} EpcommOptions;

typedef struct EpcommCall {
  size_t size;
  int slot;     /* 0 .. in_flight - 1 */
  int dtype;    /* EpcommDType */
  int tokens;   /* 0 .. max_tokens */
  int fullest;  /* largest number of tokens of a rank. All ranks pass the same value; 0: max_tokens */
  int routing;  /* EpcommRouting, the same on all ranks */
  int purpose;  /* EpcommPurpose, the same on all ranks */
  int ids_bits; /* 32 or 64; 0: 32. Of 64, kernels read only the lower 32 bits; debug mode checks all 64 */
  int unused;   /* 0 */
  const void *x;            /* [tokens, hidden] BF16; e4m3 for dtype fp8 of packs made with --raw */
  const void *topk_ids;     /* [tokens, topk] global expert ids, -1 if masked. In layouts rank and rank packed, a
                               token may name an expert twice. In other layouts a token's ids must be distinct; debug
                               checks that */
  const float *weights;     /* [tokens, topk] router weights; layout expert needs the same for dispatch and combine */
  const float *input_scale; /* [1] NVFP4's global scale; NULL for 1. With --raw and fp8: [tokens, hidden/128] */
  /* Outputs of dispatch; NULL means the library's own. Either pass all outputs that the dtype has, on all ranks, or
   * pass none on any rank. Pass the same outputs to combine. Outputs in the memory of epcomm_extra must have the same
   * offset on all ranks, and the library may then choose any kernel. For outputs in other memory, it chooses only
   * kernels in which the receiving rank writes the rows. */
  void *out;               /* [max_rows, row_bytes] rows by expert */
  void *out_scales;        /* fp8: float [hidden/128, max_rows]; mxfp4: [max_rows, hidden/32]; nvfp4: 5-D blocks */
  uint32_t *row_offsets;   /* [groups + 1] */
  int32_t *expert_ids;     /* [groups] local expert of each group */
  int32_t *src_info;       /* [max_rows, 2] token on its rank, top-k position */
  uint32_t *scale_offsets; /* [groups] nvfp4 */
  /* The shapes above are for layout expert; see EpcommLayout for the others. The next four members are for
   * combine. */
  const void *y;   /* [max_rows, hidden] BF16, the experts' output of each row. With several nodes it must lie in
                      EpcommOutputs.y or epcomm_extra, because the network reads it */
  void *combined;  /* [tokens, hidden] BF16 */
  const void *bias;     /* [hidden] BF16, only for combines with epilogue=bias */
  float epilogue_scale; /* only for combines with epilogue=scale. epbench pack chooses no combine with an epilogue */
  uint64_t rows;        /* layout rank packed: number of rows for which the given outputs have room. 0 means max_rows.
                           With 0, a call that ends with a fault does not write NaN to the rows */
  int32_t *row_tokens;  /* layout rank packed: [rows] each row's token on its source rank, or NULL. If given, ids in
                           expert_ids have 64 bits */
} EpcommCall;

/* The properties of the pack, and of this rank's memory. */
typedef struct EpcommInfo {
  size_t size;
  int rank, ranks, hidden, experts, local_experts, topk, max_tokens;
  int groups;       /* groups of rows: one for each rank in layouts rank and rank packed, else one for each local
                       expert. With a fused shared expert there is one more group, the first one */
  int shared, skip_a2a, reduced;
  int in_flight;
  int largest_grid; /* most SMs that a call takes */
  unsigned dtypes;  /* bit 1 << EpcommDType */
  int default_dtype;
  uint64_t heap_bytes;  /* device memory of this rank */
  char digest[65];      /* of the pack, hex */
  char abi[65];         /* hash of the builds of all kernels, hex */
  char arch[16];
  char kernels[1024];   /* "kernel=build,...", the argument abi of tuned_refusal; `epbench table export
                           --format c` writes that function */
  int layout;           /* EpcommLayout */
  int raw;              /* 1: tokens of dtype fp8 are passed as fp8 */
  int nodes;            /* 1 for packs of one host */
  char nvshmem[16];     /* version that a pack of several nodes needs, else empty */
  int survivors;        /* 1: the pack's kernels can go on without a lost rank */
} EpcommInfo;

typedef struct EpcommOutputs {
  size_t size;
  void *out, *out_scales;
  uint32_t *row_offsets;
  int32_t *expert_ids, *src_info;
  uint32_t *scale_offsets;
  uint64_t max_rows, row_bytes, out_bytes, scale_bytes;
  int scales, scale_bytes_each; /* scales of one row; bytes of one scale */
  int row_pad;                  /* the rows of each group are a multiple of row_pad */
  uint64_t expert_ids_bytes, src_info_bytes, scale_offsets_bytes;
  void *y;                      /* with several nodes: room for rows [max_rows, hidden] BF16 that combine can read;
                                   else NULL */
} EpcommOutputs;

/* A wait that passed its deadline. */
typedef struct EpcommFault {
  size_t size;
  int rank;    /* the rank that waited */
  int phase;   /* 1 barrier; 2 dispatch sends; 3 dispatch receives; 4 combine sends; 5 combine receives; 6 debug mode;
                  7 a top-k id names an expert of a lost rank; 8 more rows than the given outputs have room for */
  int expert;  /* global expert for which it waited, -1 if none */
  int source;  /* rank for which it waited, -1 if none */
  int block;
  uint64_t want, got;
  char text[EPCOMM_TEXT]; /* the error text */
} EpcommFault;

/* Which kernels a call launches, and why. The strings stay valid until epcomm_destroy. */
typedef struct EpcommExplanation {
  size_t size;
  const char *dispatch; /* kernel:parameter=value,... */
  const char *combine;
  const char *why;      /* the table row that chose the kernels, or default */
  int first, last;      /* range of `fullest` with the same choice */
  int plan;             /* index of this pair of kernels in the pack, equal on all ranks */
} EpcommExplanation;

/* Collective. On failure *comm is NULL, and text (EPCOMM_TEXT bytes) gives the reason. If one rank fails, all
 * ranks fail. */
EPCOMM_API EpcommStatus epcomm_create(EpComm **comm, const EpcommOptions *options, char *text);

/* Collective. epcomm_destroy waits for this rank's device and for the other ranks, then frees everything. It frees
 * everything even if a rank's GPU is lost, but then returns EPCOMM_DRIVER on that rank and EPCOMM_PEER on the others.
 * epcomm_abandon waits for no other rank: call it if processes of ranks are gone. With several nodes, epcomm_abandon
 * does not free the heap before the process ends, and the process cannot create another EpComm for several nodes. */
EPCOMM_API EpcommStatus epcomm_destroy(EpComm *comm);
EPCOMM_API void epcomm_abandon(EpComm *comm);

/* Call path. */
EPCOMM_API EpcommStatus epcomm_dispatch(EpComm *comm, const EpcommCall *call, EpcommStream stream);
EPCOMM_API EpcommStatus epcomm_combine(EpComm *comm, const EpcommCall *call, EpcommStream stream);

/* Call path. The two halves of a call, send and recv. Work that you queue after recv, on the stream of recv, sees the
 * complete outputs. If send and recv are on different streams, other work can run during the transfer. Pass the same
 * EpcommCall to both, and do not change the inputs before recv. The slot's next call must come after recv. If that
 * call is on another stream, make that stream wait for recv's stream. */
EPCOMM_API EpcommStatus epcomm_dispatch_send(EpComm *comm, const EpcommCall *call, EpcommStream stream);
EPCOMM_API EpcommStatus epcomm_dispatch_recv(EpComm *comm, const EpcommCall *call, EpcommStream stream);
EPCOMM_API EpcommStatus epcomm_combine_send(EpComm *comm, const EpcommCall *call, EpcommStream stream);
EPCOMM_API EpcommStatus epcomm_combine_recv(EpComm *comm, const EpcommCall *call, EpcommStream stream);

/* Call path. No rank's stream continues before the streams of all ranks have reached this barrier. */
EPCOMM_API EpcommStatus epcomm_barrier(EpComm *comm, EpcommStream stream);

/* Call path. Launches a kernel that writes the GPU's clock, in ns, to *at, 8 bytes of device memory. Clocks of
 * different GPUs are not comparable. */
EPCOMM_API EpcommStatus epcomm_stamp(EpComm *comm, uint64_t *at, EpcommStream stream);

/* Returns EPCOMM_FAULT and a description if a kernel of this rank gave up a wait, else EPCOMM_OK. out may be
 * NULL. It reads only host memory, and does not wait for the kernel. Every call checks for a fault before it
 * launches, but replays of a graph do not: after a replay, wait for its stream and call this function before
 * you use the results. Other ranks may notice the fault only at their own deadline. */
EPCOMM_API EpcommStatus epcomm_fault(EpComm *comm, EpcommFault *out);

/* Collective. Waits for this rank's device and resets all memory to its state after creation. Graphs stay valid.
 * With several nodes the call also waits for the network, without a deadline. */
EPCOMM_API EpcommStatus epcomm_reset(EpComm *comm);

/* Ends the waits of the kernels of all ranks, as a deadline does. Call it if ranks have made calls that do not
 * match. Calls under way and all later calls leave NaN in their outputs, until you reset or destroy. It works only
 * for ranks of one host. It uses the default stream, and does not wait for non-blocking streams. */
EPCOMM_API EpcommStatus epcomm_stop(EpComm *comm);

/* Collective among the ranks in `alive`, bit r for rank r. Continues without the other ranks, which are then
 * lost. All ranks of the set pass the same set. Needs options.survivors and a pack made with --survivors, of
 * layout masked, rank or rank:packed for one host. It does not use all_gather, and takes at most four times
 * deadline_ns. It returns EPCOMM_PEER if a rank of the set did not call it or passed another set; then call it
 * again. It resets memory as epcomm_reset does, so calls that have begun are lost; graphs stay valid.
 *
 * A lost rank must make no more calls. Later calls send nothing to it, wait for nothing from it, and return no
 * rows of it. epcomm_reset and epcomm_destroy are then collective among the living ranks. epcomm_announce and
 * epcomm_return_weights fail while a rank is lost. See docs/faults.md. */
EPCOMM_API EpcommStatus epcomm_shrink(EpComm *comm, uint64_t alive);

/* Collective among the ranks in `alive`, bit r for rank r. Takes back the lost ranks of the set. Living ranks, and
 * lost ranks whose process still runs, call epcomm_grow. A new process calls epcomm_create with options.joins set
 * to the same set. Memory is reset; graphs stay valid. Only the ranks of the set call all_gather;
 * the gathered bytes of other ranks are not read. */
EPCOMM_API EpcommStatus epcomm_grow(EpComm *comm, uint64_t alive);

/* Stores the set of living ranks in `alive`. Stores in `dropped` how many ids of this rank named an expert of a lost
 * rank, summed over all calls since epcomm_create that have ended. Either pointer may be NULL. */
EPCOMM_API EpcommStatus epcomm_survivors(EpComm *comm, uint64_t *alive, uint64_t *dropped);

EPCOMM_API EpcommStatus epcomm_explain(EpComm *comm, const EpcommCall *call, EpcommExplanation *out);
EPCOMM_API EpcommStatus epcomm_info(EpComm *comm, EpcommInfo *out);
EPCOMM_API EpcommStatus epcomm_outputs(EpComm *comm, int slot, int dtype, EpcommOutputs *out);

/* Returns the memory of options.extra_bytes, at the same offset in every rank's heap. NULL if extra_bytes is 0. */
EPCOMM_API void *epcomm_extra(EpComm *comm);

/* Returns the error text of the last status that was not EPCOMM_OK. */
EPCOMM_API const char *epcomm_error(EpComm *comm);
EPCOMM_API const char *epcomm_status_name(EpcommStatus status);

/* Returns the routing class. counts [experts], in host memory, is how often each expert was selected, summed over
 * ranks and steps. With fewer than 16 selections for each expert, only strong skew can be told from chance. */
EPCOMM_API EpcommRouting epcomm_classify(const int64_t *counts, int experts, int ranks);

/* The GPUs of this host, as tables describe them. */
typedef struct EpcommMachine {
  size_t size;
  int sms, gpus;     /* SMs of one GPU; GPUs that this process sees */
  uint64_t memory;   /* bytes of one GPU */
  char name[96], pci_id[16], arch[16];
  char link[16];     /* "nv18": 18 NVLinks for each GPU; "mixed": different numbers; "pcie": none; "apart": some GPUs
                        cannot address each other; "none": one GPU */
  char key[160];     /* identifies the machine in tables, see epbench machine */
} EpcommMachine;

/* Describes the GPUs, as the driver and NVML report them. Without a driver it returns EPCOMM_DRIVER and writes the
 * reason to text (EPCOMM_TEXT bytes). */
EPCOMM_API EpcommStatus epcomm_machine(EpcommMachine *out, char *text);

/* Reads a pack without a GPU. Returns EPCOMM_OK if the pack is complete and made for this library. */
EPCOMM_API EpcommStatus epcomm_check_pack(const void *data, size_t bytes, EpcommInfo *out, char *text);

#ifdef __cplusplus
}
#endif
#endif
