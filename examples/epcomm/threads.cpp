// Runs dispatch and combine of one layer in a CUDA graph, with one thread for each GPU.
//
//   c++ -std=c++20 -Inative/epcomm/include examples/epcomm/threads.cpp -Lbin/epcomm -lepcomm -ldl -lpthread
//   ./a.out model.pack
#include <epcomm.h>

#include <barrier>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "gpu.h" // in native/epcomm/gpu
}

namespace {

// Meeting is an all-gather between threads.
class Meeting {
 public:
  explicit Meeting(int ranks) : data_(static_cast<size_t>(ranks)), barrier_(ranks) {}
  void gather(int rank, const void *mine, void *all, size_t bytes) {
    data_[static_cast<size_t>(rank)].assign(static_cast<const char *>(mine), bytes);
    barrier_.arrive_and_wait();
    for (size_t r = 0; r < data_.size(); r++) std::memcpy(static_cast<char *>(all) + r * bytes, data_[r].data(), bytes);
    barrier_.arrive_and_wait();
  }

 private:
  std::vector<std::string> data_;
  std::barrier<> barrier_;
};

struct Rank {
  Meeting *meeting;
  int rank;
};

int all_gather(void *context, const void *mine, void *all, size_t bytes) {
  auto *me = static_cast<Rank *>(context);
  me->meeting->gather(me->rank, mine, all, bytes);
  return 0;
}

void check(EpComm *comm, EpcommStatus status, const char *what) {
  if (status != EPCOMM_OK) throw std::runtime_error(std::string(what) + ": " + epcomm_error(comm));
}

struct Layer {
  EpcommCall call{};
  Layer(const EpcommInfo &info, int tokens, GpuStream stream) {
    const size_t n = static_cast<size_t>(tokens), hidden = static_cast<size_t>(info.hidden), topk = static_cast<size_t>(info.topk);
    std::vector<uint16_t> x(n * hidden, 0x3f80);
    std::vector<int64_t> ids(n * topk);
    std::vector<float> weights(n * topk, 1.0f / static_cast<float>(topk));
    for (size_t i = 0; i < ids.size(); i++) ids[i] = static_cast<int64_t>(i / topk * 3 + i % topk + static_cast<size_t>(info.rank)) % info.experts;
    void *dx = gpu_alloc(2 * x.size()), *dids = gpu_alloc(8 * ids.size()), *dweights = gpu_alloc(4 * weights.size());
    gpu_upload(dx, x.data(), 2 * x.size(), stream);
    gpu_upload(dids, ids.data(), 8 * ids.size(), stream);
    gpu_upload(dweights, weights.data(), 4 * weights.size(), stream);
    gpu_wait(stream);
    call.size = sizeof call;
    call.dtype = EPCOMM_BF16;
    call.tokens = call.fullest = tokens;
    call.ids_bits = 64;
    call.x = dx;
    call.topk_ids = dids;
    call.weights = static_cast<const float *>(dweights);
    call.combined = gpu_alloc(2 * x.size());
  }
};

void run(Meeting &meeting, const char *pack, int rank, int ranks) {
  Rank me{&meeting, rank};
  EpcommOptions options{};
  options.size = sizeof options;
  options.pack = pack;
  options.rank = options.device = rank;
  options.ranks = ranks;
  options.all_gather = all_gather;
  options.context = &me;
  EpComm *comm = nullptr;
  char text[EPCOMM_TEXT];
  if (epcomm_create(&comm, &options, text) != EPCOMM_OK) throw std::runtime_error(text);
  EpcommInfo info{};
  info.size = sizeof info;
  epcomm_info(comm, &info);
  EpcommOutputs rows{};
  rows.size = sizeof rows;
  epcomm_outputs(comm, 0, EPCOMM_BF16, &rows);

  gpu_use(rank);
  GpuStream stream = gpu_stream();
  const int tokens = info.max_tokens < 8 ? info.max_tokens : 8;
  Layer layer(info, tokens, stream);
  layer.call.y = rows.out; // a real layer computes its experts after dispatch
  gpu_capture(stream);
  check(comm, epcomm_dispatch(comm, &layer.call, stream), "dispatch");
  check(comm, epcomm_combine(comm, &layer.call, stream), "combine");
  GpuGraph graph = gpu_captured(stream);
  for (int i = 0; i < 10; i++) gpu_replay(graph, stream);
  std::vector<uint16_t> combined(static_cast<size_t>(tokens) * static_cast<size_t>(info.hidden));
  gpu_download(combined.data(), layer.call.combined, 2 * combined.size(), stream);
  check(comm, epcomm_fault(comm, nullptr), "fault");
  for (uint16_t v : combined)
    if (v < 0x3f7f || v > 0x3f81) throw std::runtime_error("a combined value is not 1");
  EpcommExplanation why{};
  why.size = sizeof why;
  check(comm, epcomm_explain(comm, &layer.call, &why), "explain");
  std::printf("rank %d: 10 replays of a layer of %d tokens: %s\n", rank, tokens, why.dispatch);
  gpu_graph_free(graph);
  gpu_stream_free(stream);
  epcomm_destroy(comm);
}

} // namespace

int main(int argc, char **argv) {
  std::ifstream file(argc > 1 ? argv[1] : "", std::ios::binary);
  const std::string data((std::istreambuf_iterator<char>(file)), {});
  EpcommInfo info{};
  char text[EPCOMM_TEXT];
  info.size = sizeof info;
  if (epcomm_check_pack(data.data(), data.size(), &info, text) != EPCOMM_OK) {
    std::fprintf(stderr, "%s\n", text);
    return 1;
  }
  Meeting meeting(info.ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < info.ranks; r++)
    threads.emplace_back([&, r] {
      try {
        run(meeting, argv[1], r, info.ranks);
      } catch (const std::exception &e) {
        std::fprintf(stderr, "rank %d: %s\n", r, e.what());
        std::exit(1);
      }
    });
  for (auto &t : threads) t.join();
}
