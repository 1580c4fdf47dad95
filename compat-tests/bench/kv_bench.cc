// kv_bench: how many pushes, pulls and push-pulls a second ps-lite serves. One source for the stock
// ps-lite inside the MXNet wheel and for any library preloaded over it: it makes the calls that
// MXNet's kvstore makes, on objects laid out as MXNet lays them out (abi.h).
//
//   kv_bench LIBMXNET [--scale X] [--seconds S] [--window N] [--limit S]
//
// One process of a cluster; DMLC_ROLE and the other variables of ps-lite say which. A worker prints
// one line of JSON for each point, and a last one that says that all that arrived was right.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "abi.h"

namespace {

// MXNet cuts arrays of this many 4-byte elements or more (MXNET_KVSTORE_BIGARRAY_BOUND).
const size_t kBigArray = 1000 * 1000;
const int kStopServer = 2;  // MXNet's command that ends a server
const int kMaxWindow = 64;

struct Options {
  const char* wheel = nullptr;
  double scale = 1;     // of the counts below
  double seconds = 5;   // the longest that a point may take
  int window = 16;      // requests under way in pipelined mode
  unsigned limit = 120; // seconds of the whole process
};

struct Size {
  size_t bytes;
  int sequential, pipelined;  // requests of a point
};
const Size kSizes[] = {{64, 3000, 12000}, {4 << 10, 3000, 12000}, {256 << 10, 600, 1500},
                       {4 << 20, 60, 120}};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
         1e-6 * (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
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
  Server(const ps::Symbols& lib, double limit) : lib_(lib), limit_(limit), app_(nullptr) {}

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
    std::vector<char>& stored = store_[key];
    if (meta.push) {
      if (data.lens.size_ != 1 || data.vals.size_ != size_t(data.lens.data()[0])) {
        fail("a push whose length is not what it says");
      }
      stored.resize(data.vals.size_);
      std::memcpy(stored.data(), data.vals.data(), stored.size());
    }
    ps::KVPairs answer;
    if (meta.pull) {
      const int length = int(stored.size());
      answer.keys = data.keys;
      answer.lens = ps::SArray<int>::copy_of(&length, 1);
      answer.vals = ps::SArray<char>::copy_of(stored.data(), stored.size());
    }
    lib_.respond(app, meta, answer);
  }

  static const size_t kMaxKeys = 1 << 16;

  const ps::Symbols& lib_;
  const double limit_;
  ps::KVServer* app_;
  std::vector<std::vector<char>> store_;  // the customer's thread alone
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

class Worker {
 public:
  Worker(const ps::Symbols& lib, const Options& options) : lib_(lib), options_(options) {}

  void run() {
    app_ = new_worker(lib_);
    ps::Postoffice* office = lib_.get();
    lib_.start(office, 0, "mxnet", false);
    lib_.barrier(office, 0, ps::kEverybody);
    rank_ = rank_of(lib_);
    for (const Size& size : kSizes) points_of(size);
    lib_.barrier(office, 0, ps::kWorkerGroup);
    if (rank_ == 0) stop_servers();
    lib_.finalize(office, 0, true);
    ps::slot<void (*)(ps::SimpleApp*)>(app_, ps::kDelete)(app_);
    const std::string file = lib_.server_of_calls();
    std::printf("{\"rank\": %d, \"requests\": %ld, \"pslite\": %s}\n", rank_, requests_,
                file.find("pslite") == std::string::npos ? "false" : "true");
  }

 private:
  enum Op { kPush, kPull, kPushPull };

  void points_of(const Size& size) {
    make_tensors(size.bytes);
    for (Tensor& tensor : tensors_) wait(issue(kPush, &tensor));  // they exist on the servers
    for (int window : {1, options_.window}) {
      const int count = window == 1 ? size.sequential : size.pipelined;
      for (Op op : {kPush, kPull, kPushPull}) {
        spoil(op);
        point(op, size.bytes, window, int(count * options_.scale));
        if (op != kPull) {  // what the servers now have
          spoil(kPull);
          for (Tensor& tensor : tensors_) wait(issue(kPull, &tensor));
        }
        check(op);
      }
    }
  }

  // One array for each request that can be under way, so that none waits for another.
  void make_tensors(size_t bytes) {
    tensors_.resize(options_.window);
    const std::vector<ps::Range>& ranges = lib_.ranges(lib_.get());
    for (size_t i = 0; i < tensors_.size(); ++i) {
      Tensor& tensor = tensors_[i];
      const int key = next_key_ + rank_ * options_.window + int(i);
      encode(key, bytes, ranges, &tensor);
      tensor.mark = char(1 + (key * 31) % 126);
      tensor.values.assign(bytes, tensor.mark);
    }
    next_key_ += 16 * kMaxWindow;
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

  void rounds(Op op, int window, int count, double deadline, int* made) {
    int timestamps[kMaxWindow];
    const int least = int(tensors_.size());  // each array at least once: all are checked
    int i = 0;
    for (; i < least || (i < count && now() < deadline); ++i) {
      int& timestamp = timestamps[i % window];
      if (i >= window) wait(timestamp);
      timestamp = issue(op, &tensors_[i % tensors_.size()]);
    }
    for (int j = std::max(0, i - window); j < i; ++j) wait(timestamps[j % window]);
    *made = i;
  }

  void point(Op op, size_t bytes, int window, int count) {
    static const char* const names[] = {"push", "pull", "pushpull"};
    int made = 0;
    rounds(op, window, count / 10, now() + options_.seconds, &made);
    lib_.barrier(lib_.get(), 0, ps::kWorkerGroup);
    const double cpu = cpu_seconds(), begin = now();
    rounds(op, window, count, begin + options_.seconds, &made);
    const double seconds = now() - begin;
    std::printf("{\"op\": \"%s\", \"size\": %zu, \"mode\": \"%s\", \"ops\": %d, \"ops_per_s\": %.2f, "
                "\"us_per_op\": %.3f, \"worker_cpu_us_per_op\": %.3f}\n",
                names[op], bytes, window == 1 ? "sequential" : "pipelined", made, made / seconds,
                1e6 * seconds / made, 1e6 * (cpu_seconds() - cpu) / made);
    std::fflush(stdout);
    lib_.barrier(lib_.get(), 0, ps::kWorkerGroup);
  }

  // Before a pull, what must arrive is not there.
  void spoil(Op op) {
    for (Tensor& tensor : tensors_) {
      if (op == kPull) std::fill(tensor.values.begin(), tensor.values.end(), 0);
    }
  }

  void check(Op op) {
    if (done_ != requests_) fail("callbacks: " + std::to_string(long(done_)) + " of " +
                                 std::to_string(requests_));
    for (const Tensor& tensor : tensors_) {
      if (!tensor.holds_mark()) fail("wrong values after op " + std::to_string(int(op)));
    }
  }

  void stop_servers() {
    typedef int (*Request)(ps::SimpleApp*, int, const std::string&, int);
    wait(ps::slot<Request>(app_, ps::kRequest)(app_, kStopServer, std::string(), ps::kServerGroup));
  }

  const ps::Symbols& lib_;
  const Options& options_;
  ps::KVWorker* app_ = nullptr;
  int rank_ = 0, next_key_ = 0;
  long requests_ = 0;
  std::atomic<long> done_{0};
  std::vector<Tensor> tensors_;
};

void run_scheduler(const ps::Symbols& lib) {
  ps::Postoffice* office = lib.get();
  lib.start(office, 0, "mxnet_server", false);
  lib.barrier(office, 0, ps::kEverybody);
  lib.finalize(office, 0, true);
}

Options parse(int argc, char** argv) {
  Options options;
  if (argc < 2) fail("usage: kv_bench LIBMXNET [--scale X] [--seconds S] [--window N] [--limit S]");
  options.wheel = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const double value = std::atof(argv[i + 1]);
    if (value <= 0) fail("not a positive number: " + std::string(argv[i + 1]));
    if (name == "--scale") options.scale = value;
    else if (name == "--seconds") options.seconds = value;
    else if (name == "--window") options.window = std::min(kMaxWindow, std::max(2, int(value)));
    else if (name == "--limit") options.limit = unsigned(value);
    else fail("unknown option " + name);
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = parse(argc, argv);
  alarm(options.limit);  // whatever happens, nothing stays behind
  const char* role = std::getenv("DMLC_ROLE");
  if (!role) fail("DMLC_ROLE is not set");
  const ps::Symbols lib(options.wheel);
  if (!std::strcmp(role, "worker")) Worker(lib, options).run();
  else if (!std::strcmp(role, "server")) Server(lib, options.limit).run();
  else run_scheduler(lib);
  return 0;
} catch (const std::exception& error) {
  fail(error.what());
}
