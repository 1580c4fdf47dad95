// kv_bench: how many pushes, pulls and push-pulls a second ps-lite serves. One source for the stock
// ps-lite inside the MXNet wheel and for any library preloaded over it: it makes the calls that
// MXNet's kvstore makes, on objects laid out as MXNet lays them out (abi.h).
//
//   kv_bench LIBMXNET SECONDS [keep]
//
// One process of a cluster; DMLC_ROLE and the other variables of ps-lite say which. After SECONDS
// it ends, whatever happens. A worker reads lines from standard input, and answers each with a line
// of JSON; every worker of a job must be given the same lines:
//
//   OP BYTES WINDOW COUNT   OP is push, pull or pushpull; WINDOW requests are under way at a time
//                           (1: each is waited for); COUNT of them are measured
//   end                     the worker stops the servers and leaves
//
// With `keep` the server keeps the memory that a push brought and answers pulls from it, so that
// nothing is measured but ps-lite. Without, it copies on both ways, as MXNet's server does.
//
// Everything that arrives is compared with what was pushed; a difference ends the process with 1.
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <sstream>

#include "abi.h"

namespace {

// MXNet cuts arrays of this many 4-byte elements or more (MXNET_KVSTORE_BIGARRAY_BOUND).
const size_t kBigArray = 1000 * 1000;
const int kStopServer = 2;  // MXNet's command that ends a server
// Arrays of each size, and so the most requests under way: none waits for another one's memory.
const int kArrays = 16;
const int kMaxSizes = 16;
const int kMaxWorkers = 16;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "kv_bench: %s\n", what.c_str());
  std::_Exit(1);
}

int rank_of(const ps::Symbols& lib) {
  // ps.h's MyRank: ids of servers are 8, 10, ..., of workers 9, 11, ...
  return std::max(0, (lib.my_node(lib.get()->van).id - 8) / 2);
}

// The inlined constructor of SimpleApp, and the customer whose messages go to the virtual Process.
void construct_app(const ps::Symbols& lib, ps::SimpleApp* app, void** vtable, int customer_id) {
  std::memset(&app->request_handle, 0, 2 * sizeof(ps::Function));
  typedef void (*Simple)(const ps::Function*, const ps::SimpleData&, ps::SimpleApp*);
  typedef void (*Answer)(ps::SimpleApp*, const ps::SimpleData&, const std::string&);
  const Simple answer = [](const ps::Function*, const ps::SimpleData& data, ps::SimpleApp* self) {
    ps::slot<Answer>(self, ps::kResponse)(self, data, std::string());
  };
  const Simple ignore = [](const ps::Function*, const ps::SimpleData&, ps::SimpleApp*) {};
  app->request_handle.manager = app->response_handle.manager = ps::plain_manager;
  app->request_handle.invoker = reinterpret_cast<void*>(answer);
  app->response_handle.invoker = reinterpret_cast<void*>(ignore);
  app->vptr = vtable + 2;
  void* memory = ::operator new(sizeof(ps::Customer));
  const std::function<void(const ps::Message&)> process = [app](const ps::Message& message) {
    typedef void (*Process)(ps::SimpleApp*, const ps::Message&);
    ps::slot<Process>(app, ps::kProcess)(app, message);
  };
  app->obj = static_cast<ps::Customer*>(memory);
  lib.customer(app->obj, 0, customer_id, process);
}

void construct_map(ps::Map48* map) {
  map->first = nullptr;
  map->elements = 0;
  new (&map->policy) std::__detail::_Prime_rehash_policy();
  map->bucket_count = map->policy._M_next_bkt(10);
  map->buckets = static_cast<void**>(::operator new(map->bucket_count * sizeof(void*)));
  std::memset(map->buckets, 0, map->bucket_count * sizeof(void*));
}

ps::KVWorker* new_worker(const ps::Symbols& lib) {
  ps::KVWorker* worker = static_cast<ps::KVWorker*>(::operator new(sizeof(ps::KVWorker)));
  construct_map(&worker->recv_kvs);
  construct_map(&worker->callbacks);
  std::memset(worker->mutex, 0, sizeof worker->mutex);
  // A bound DefaultSlicer. By-value arguments, so the invoker is the 4.8 one.
  typedef void (*Slice)(const ps::Function*, const ps::KVPairs&, const std::vector<ps::Range>&,
                        void*);
  const Slice slice = [](const ps::Function* self, const ps::KVPairs& kvs,
                         const std::vector<ps::Range>& ranges, void* sliced) {
    typedef void (*Method)(void*, const ps::KVPairs&, const std::vector<ps::Range>&, void*);
    reinterpret_cast<Method>(self->data[1])(self->data[0], kvs, ranges, sliced);
  };
  worker->slicer = {{worker, lib.default_slicer}, ps::plain_manager,
                    reinterpret_cast<void*>(slice)};
  construct_app(lib, worker, lib.worker_vtable, 0);
  return worker;
}

// ---- the server: values by key, answered at once

class Server {
 public:
  Server(const ps::Symbols& lib, double limit, bool keeps)
      : lib_(lib), limit_(limit), keeps_(keeps), app_(nullptr) {}

  void run() {
    app_ = static_cast<ps::KVServer*>(::operator new(sizeof(ps::KVServer)));
    app_->kv_handle = {{this, nullptr}, ps::plain_manager, reinterpret_cast<void*>(&handle)};
    construct_app(lib_, app_, lib_.server_vtable, 0);
    const ps::Function command = {{this, nullptr}, ps::plain_manager,
                                  reinterpret_cast<void*>(&commanded)};
    typedef void (*Set)(ps::SimpleApp*, const ps::Function&);
    ps::slot<Set>(app_, ps::kSetRequestHandle)(app_, command);
    ps::Postoffice* office = lib_.get();
    lib_.start(office, 0, "mxnet_server", false);
    lib_.barrier(office, 0, ps::kEverybody);
    std::unique_lock<std::mutex> lock(mutex_);
    const std::chrono::duration<double> longest(limit_);
    if (!changed_.wait_for(lock, longest, [this] { return stopped_; })) fail("never stopped");
    lock.unlock();
    lib_.finalize(office, 0, true);
    ps::slot<void (*)(ps::SimpleApp*)>(app_, ps::kDelete)(app_);
  }

 private:
  // Stored in KVServer::request_handle_ (GCC 4.8's invoker: KVServer* by value).
  static void handle(const ps::Function* self, const ps::KVMeta& meta, const ps::KVPairs& data,
                     ps::KVServer* app) {
    static_cast<Server*>(self->data[0])->serve(meta, data, app);
  }

  static void commanded(const ps::Function* self, const ps::SimpleData& data, ps::SimpleApp* app) {
    typedef void (*Answer)(ps::SimpleApp*, const ps::SimpleData&, const std::string&);
    ps::slot<Answer>(app, ps::kResponse)(app, data, std::string());
    if (data.head == kStopServer) static_cast<Server*>(self->data[0])->stop();
  }

  void stop() {
    std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }

  // As MXNet's server: one key in each request, decoded relative to this server's range.
  void serve(const ps::KVMeta& meta, const ps::KVPairs& data, ps::KVServer* app) {
    if (data.keys.size_ != 1) fail("a request that has not one key");
    const ps::Key sent = data.keys.data()[0];
    const size_t key = sent - lib_.ranges(lib_.get())[rank_of(lib_)].begin;
    if (key >= kMaxKeys) fail("a key out of range");
    if (store_.size() <= key) store_.resize(key + 1);
    ps::SArray<char>& stored = store_[key];
    if (meta.push) {
      if (data.lens.size_ != 1 || data.vals.size_ != size_t(data.lens.data()[0])) {
        fail("a push whose length is not what it says");
      }
      put(data.vals, &stored);
    }
    ps::KVPairs answer;
    if (meta.pull) {
      const int length = int(stored.size_);
      answer.keys = data.keys;
      answer.lens = ps::SArray<int>::copy_of(&length, 1);
      answer.vals = keeps_ ? stored : ps::SArray<char>::copy_of(stored.data(), stored.size_);
    }
    lib_.respond(app, meta, answer);
  }

  void put(const ps::SArray<char>& vals, ps::SArray<char>* stored) const {
    if (keeps_) {
      *stored = vals;
    } else if (stored->size_ != vals.size_) {
      *stored = ps::SArray<char>::copy_of(vals.data(), vals.size_);
    } else {
      std::memcpy(stored->data(), vals.data(), vals.size_);
    }
  }

  static const size_t kMaxKeys = kArrays * kMaxSizes * kMaxWorkers;

  const ps::Symbols& lib_;
  const double limit_;
  const bool keeps_;
  ps::KVServer* app_;
  std::vector<ps::SArray<char>> store_;  // the customer's thread alone
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
};

// ---- the worker

// One array of the application: what MXNet keeps in ps_kv_, and the array's memory.
struct Tensor {
  ps::SArray<ps::Key> keys;
  ps::SArray<int> lens;
  std::vector<char> values;
  char mark;

  bool holds_mark() const {
    return std::all_of(values.begin(), values.end(), [this](char c) { return c == mark; });
  }
};

enum Op { kPush, kPull, kPushPull };

class Worker {
 public:
  explicit Worker(const ps::Symbols& lib) : lib_(lib) {}

  void run() {
    app_ = new_worker(lib_);
    ps::Postoffice* office = lib_.get();
    lib_.start(office, 0, "mxnet", false);
    lib_.barrier(office, 0, ps::kEverybody);
    rank_ = rank_of(lib_);
    std::string line;
    while (std::getline(std::cin, line) && line != "end") obey(line);
    lib_.barrier(office, 0, ps::kWorkerGroup);
    if (rank_ == 0) stop_servers();
    lib_.finalize(office, 0, true);
    ps::slot<void (*)(ps::SimpleApp*)>(app_, ps::kDelete)(app_);
    const std::string file = lib_.server_of_calls();
    std::printf("{\"rank\": %d, \"requests\": %ld, \"library\": \"%s\"}\n", rank_, requests_,
                file.substr(file.rfind('/') + 1).c_str());
  }

 private:
  void obey(const std::string& line) {
    static const std::map<std::string, Op> ops = {
        {"push", kPush}, {"pull", kPull}, {"pushpull", kPushPull}};
    std::istringstream words(line);
    std::string name;
    size_t bytes = 0;
    int window = 0, count = 0;
    words >> name >> bytes >> window >> count;
    if (!words || !ops.count(name) || bytes < 4 || bytes % 4 || bytes > (256u << 20) ||
        window < 1 || window > kArrays || count < 1) {
      fail("not a command: " + line);
    }
    use_tensors(bytes);
    const Op op = ops.at(name);
    if (op == kPull) spoil();
    const double seconds = point(op, window, count);
    if (op != kPull) {  // what the servers now have
      spoil();
      for (Tensor& tensor : *tensors_) wait(issue(kPull, &tensor));
    }
    check(line);
    std::printf("{\"ops_per_s\": %.2f, \"seconds\": %.6f}\n", count / seconds, seconds);
    std::fflush(stdout);
  }

  // The arrays of a size; made, and pushed to the servers, when first asked for.
  void use_tensors(size_t bytes) {
    const int order = int(sizes_.size());
    tensors_ = &sizes_[bytes];
    if (!tensors_->empty()) return;
    if (order >= kMaxSizes || rank_ >= kMaxWorkers) fail("too many sizes or workers");
    tensors_->resize(kArrays);
    const std::vector<ps::Range>& ranges = lib_.ranges(lib_.get());
    for (int i = 0; i < kArrays; ++i) {
      Tensor& tensor = (*tensors_)[i];
      const int key = (order * kMaxWorkers + rank_) * kArrays + i;
      encode(key, bytes, ranges, &tensor);
      tensor.mark = char(1 + (key * 31) % 126);
      tensor.values.assign(bytes, tensor.mark);
      wait(issue(kPush, &tensor));
    }
  }

  // MXNet's EncodeDefaultKey: a small array whole on one server, a big one in a part for each.
  static void encode(int key, size_t bytes, const std::vector<ps::Range>& ranges, Tensor* tensor) {
    std::vector<ps::Key> keys;
    std::vector<int> lens;
    const size_t n = ranges.size();
    if (bytes / 4 < kBigArray) {
      keys.push_back(ranges[size_t(key) * 9973 % n].begin + key);
      lens.push_back(int(bytes));
    } else {
      for (size_t i = 0; i < n; ++i) {
        const size_t from = bytes / 4 * i / n, to = bytes / 4 * (i + 1) / n;
        keys.push_back(ranges[i].begin + key);
        lens.push_back(int(4 * (to - from)));
      }
    }
    tensor->keys = ps::SArray<ps::Key>::copy_of(keys.data(), keys.size());
    tensor->lens = ps::SArray<int>::copy_of(lens.data(), lens.size());
  }

  // Starts one request as MXNet's engine operations do; its timestamp.
  int issue(Op op, Tensor* tensor) {
    ++requests_;
    if (op == kPush) {
      const ps::SArray<char> vals(tensor->values.data(), tensor->values.size());
      return lib_.push(app_, tensor->keys, vals, tensor->lens, 0, [this] { ++done_; }, 0);
    }
    ps::SArray<char>* vals = new ps::SArray<char>(tensor->values.data(), tensor->values.size());
    const int timestamp = lib_.expect_pull(app_, tensor->keys, vals, &tensor->lens, 0,
                                           [this, vals] { delete vals; ++done_; });
    ps::KVPairs kvs;
    kvs.keys = tensor->keys;
    if (op == kPushPull) {
      kvs.vals = *vals;
      kvs.lens = tensor->lens;
    }
    lib_.send(app_, timestamp, op == kPushPull, true, 0, kvs);
    return timestamp;
  }

  void wait(int timestamp) {
    ps::slot<void (*)(ps::SimpleApp*, int)>(app_, ps::kWait)(app_, timestamp);
  }

  void requests(Op op, int window, int count) {
    int timestamps[kArrays];
    for (int i = 0; i < count; ++i) {
      int& timestamp = timestamps[i % window];
      if (i >= window) wait(timestamp);
      timestamp = issue(op, &(*tensors_)[i % kArrays]);
    }
    for (int i = std::max(0, count - window); i < count; ++i) wait(timestamps[i % window]);
  }

  // Seconds of `count` requests, begun together with the other workers.
  double point(Op op, int window, int count) {
    requests(op, window, std::max(kArrays, count / 10));  // warm-up: each array at least once
    lib_.barrier(lib_.get(), 0, ps::kWorkerGroup);
    const double begin = now();
    requests(op, window, count);
    const double seconds = now() - begin;
    lib_.barrier(lib_.get(), 0, ps::kWorkerGroup);
    return seconds;
  }

  // Before a pull, what must arrive is not there.
  void spoil() {
    for (Tensor& tensor : *tensors_) std::fill(tensor.values.begin(), tensor.values.end(), 0);
  }

  void check(const std::string& line) {
    if (done_ != requests_) {
      fail(line + ": " + std::to_string(long(done_)) + " callbacks for " +
           std::to_string(requests_) + " requests");
    }
    for (const Tensor& tensor : *tensors_) {
      if (!tensor.holds_mark()) fail(line + ": what was pulled is not what was pushed");
    }
  }

  void stop_servers() {
    typedef int (*Request)(ps::SimpleApp*, int, const std::string&, int);
    wait(ps::slot<Request>(app_, ps::kRequest)(app_, kStopServer, std::string(), ps::kServerGroup));
  }

  const ps::Symbols& lib_;
  ps::KVWorker* app_ = nullptr;
  int rank_ = 0;
  long requests_ = 0;
  std::atomic<long> done_{0};
  std::map<size_t, std::vector<Tensor>> sizes_;
  std::vector<Tensor>* tensors_ = nullptr;
};

void run_scheduler(const ps::Symbols& lib) {
  ps::Postoffice* office = lib.get();
  lib.start(office, 0, "mxnet_server", false);
  lib.barrier(office, 0, ps::kEverybody);
  lib.finalize(office, 0, true);
}

}  // namespace

int main(int argc, char** argv) try {
  const bool keeps = argc == 4 && !std::strcmp(argv[3], "keep");
  const int limit = argc == 3 || keeps ? std::atoi(argv[2]) : 0;
  if (limit <= 0) fail("usage: kv_bench LIBMXNET SECONDS [keep]");
  alarm(unsigned(limit));
  // The measured server makes and drops memory for every answer. Where glibc gives such memory back
  // to the system each time, an answer of 4 MB costs 1024 page faults, a third of the speed;
  // whether it does is the luck of a few hundred bytes (a heap of 64 MB that is just full). With
  // this it never does.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_TOP_PAD, 32 << 20);
  // The server here is not MXNet's: our library's store must not stand in front of it.
  setenv("PSLITE_STORE", "mxnet", 1);
  const char* role = std::getenv("DMLC_ROLE");
  if (!role) fail("DMLC_ROLE is not set");
  const ps::Symbols lib(argv[1]);
  if (!std::strcmp(role, "worker")) Worker(lib).run();
  else if (!std::strcmp(role, "server")) Server(lib, limit, keeps).run();
  else run_scheduler(lib);
  return 0;
} catch (const std::exception& error) {
  fail(error.what());
}
