/* Declarations for all files of the emulated driver. */
#ifndef EMUL_DRIVER_STREAM_H
#define EMUL_DRIVER_STREAM_H

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

/* The namespace avoids conflicts with names of loaded modules. */
namespace emulated {

inline int setting(const char *name, int otherwise) {
  const char *s = getenv(name);
  return s ? atoi(s) : otherwise;
}

inline void trace(const char *call) {
  const char *file = getenv("EMUL_TRACE");
  FILE *f = file ? fopen(file, "a") : nullptr;
  if (!f) return;
  std::string name(call);
  size_t revision = name.find("_v");
  fprintf(f, "%s\n", name.substr(0, revision).c_str());
  fclose(f);
}

inline uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

using Work = std::function<void()>;

/* Sleeps, so that the threads that run kernels get the processor. */
inline void rest() {
  timespec nap{0, 200'000};
  nanosleep(&nap, nullptr);
}

struct Capture {
  std::vector<Work> works;
  bool ended = false;
  bool lost = false; /* a forbidden call was made */
  uint64_t number = ++captures;

 private:
  inline static std::atomic<uint64_t> captures{0};
};

/* A Stream runs work in order on its own thread. */
class Stream {
 public:
  Stream() : thread_([this] { loop(); }) {}
  ~Stream() {
    {
      std::lock_guard<std::mutex> hold(lock_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  void add(Work w) {
    if (capture) {
      capture->works.push_back(std::move(w));
      return;
    }
    std::lock_guard<std::mutex> hold(lock_);
    queue_.push_back(std::move(w));
    wake_.notify_all();
  }
  bool idle() {
    std::lock_guard<std::mutex> hold(lock_);
    return queue_.empty() && !busy_;
  }
  std::shared_ptr<Capture> capture;
  const uint64_t number = ++made;

 private:
  inline static std::atomic<uint64_t> made{0};
  void loop() {
    std::unique_lock<std::mutex> hold(lock_);
    for (;;) {
      wake_.wait(hold, [this] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      Work w = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      hold.unlock();
      w();
      hold.lock();
      busy_ = false;
    }
  }
  std::mutex lock_;
  std::condition_variable wake_;
  std::deque<Work> queue_;
  bool busy_ = false, stop_ = false;
  std::thread thread_;
};

inline thread_local CUcontext current;

inline std::mutex streams_lock;
inline std::set<Stream *> streams;

inline Stream *new_stream() {
  Stream *s = new Stream;
  std::lock_guard<std::mutex> hold(streams_lock);
  streams.insert(s);
  return s;
}

inline Stream *stream_of(CUstream s) {
  static std::mutex lock;
  static std::map<CUcontext, Stream *> defaults;
  if (reinterpret_cast<uintptr_t>(s) > 2) return reinterpret_cast<Stream *>(s);
  std::lock_guard<std::mutex> hold(lock);
  Stream *&d = defaults[current];
  if (!d) d = new_stream();
  return d;
}

} // namespace emulated

#endif
