// ps/kv_app.h: keys and values: KVWorker pushes and pulls, KVServer answers.
#ifndef PS_KV_APP_H_
#define PS_KV_APP_H_

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ps/base.h"
#include "ps/internal/abi.h"
#include "ps/internal/postoffice.h"
#include "ps/range.h"
#include "ps/sarray.h"
#include "ps/simple_app.h"

namespace ps {

// Keys with their values. lens: how many values each key has; empty: all have equally many.
template <typename Val>
struct KVPairs {
  SArray<Key> keys;
  SArray<Val> vals;
  SArray<int> lens;
  // Higher goes first.
  int priority = 0;
};

namespace abi {

// The caller's memory for `bytes` bytes of an answer; null if they do not fit. An empty array is made to fit. A larger
// one is fine if the caller gets to know how much of it came.
template <typename V, typename Resize>
void* place(Resize resize, V* data, size_t size, size_t bytes, bool may_be_larger) {
  const size_t count = bytes / sizeof(V);
  if (bytes % sizeof(V) != 0) return nullptr;
  if (size == 0 && count > 0) return resize(count);
  return count == size || (may_be_larger && count < size) ? data : nullptr;
}
template <typename V>
void* place(SArray<V>* array, size_t bytes, bool may_be_larger) {
  const auto resize = [array](size_t count) -> V* {
    V* memory = new (std::nothrow) V[count];
    if (memory) array->reset(memory, count, [](V* own) { delete[] own; });
    return memory;
  };
  return place<V>(resize, array->data(), array->size(), bytes, may_be_larger);
}
template <typename V>
void* place(std::vector<V>* array, size_t bytes, bool may_be_larger) {
  const auto resize = [array](size_t count) -> V* {
    try {
      array->resize(count);
    } catch (const std::exception&) {
      return nullptr;
    }
    return array->data();
  };
  return place<V>(resize, array->data(), array->size(), bytes, may_be_larger);
}

// Failures of requests that nobody may ever wait for: the next request of the same worker throws them.
struct Untold {
  std::mutex mutex;
  std::string text;
  std::atomic<bool> is_set{false};

  void set(const std::string& reason) {
    std::lock_guard<std::mutex> lock(mutex);
    if (!is_set) text = reason;
    is_set = true;
  }
  void raise() {
    if (!is_set) return;
    std::lock_guard<std::mutex> lock(mutex);
    is_set = false;
    throw dmlc::Error("an earlier request failed: " + text);
  }
};

// What a request needs at its end. Two owners: the call that makes the request, and its end.
struct Pending {
  Pending(const std::function<void()>& callback, const std::shared_ptr<Untold>& untold, Van* van)
      : callback_(callback), untold_(untold), van_(van) {}
  virtual ~Pending() {}

  static void ended(void* arg, int status, const char* error) noexcept {
    Pending* self = static_cast<Pending*>(arg);
    self->has_ended_ = true;
    if (status == PSLITE_OK) {
      self->succeed();
    } else {
      self->fail(status, error ? error : "the request failed");
    }
    self->drop();
  }

  void drop() {
    if (owners_.fetch_sub(1) == 1) delete this;
  }

  // The call that made the request is over; one that failed has no end, unless it came before.
  void settle(int status, const char* what) {
    const std::string reason = status == PSLITE_OK ? std::string() : pslite_last_error();
    if (status != PSLITE_OK && !has_ended_) drop();
    drop();
    if (status != PSLITE_OK) throw dmlc::Error(std::string(what) + ": " + reason);
  }

 private:
  void succeed() {
    if (!callback_) return;
    try {
      callback_();
    } catch (...) {
      const std::string text = "a callback has thrown: " + text_of(std::current_exception());
      pslite_log(0, text.c_str());
      untold_->set(text);
    }
  }

  // The callback says that all went well, so it is not called.
  void fail(int status, const char* error) {
    if (!callback_) return;
    pslite_log(0, error);
    untold_->set(error);
    van_->tell_failure(status, error);
  }

  const std::function<void()> callback_;
  const std::shared_ptr<Untold> untold_;
  Van* const van_;
  std::atomic<bool> has_ended_{false};
  std::atomic<int> owners_{2};
};

// A request that brings values, and perhaps lens, into arrays of the caller.
template <typename Vals, typename Lens>
struct PendingPull : public Pending {
  PendingPull(Vals* vals, Lens* lens, const std::function<void()>& callback, const std::shared_ptr<Untold>& untold,
              Van* van)
      : Pending(callback, untold, van), vals_(vals), lens_(lens) {}

  pslite_destination destination() {
    pslite_destination into;
    std::memset(&into, 0, sizeof into);
    into.place_vals = place_vals;
    into.place_lens = lens_ ? place_lens : nullptr;
    into.arg = this;
    // What is empty is made to fit when the values are here.
    if (!vals_->empty()) {
      into.vals = vals_->data();
      into.vals_bytes = vals_->size() * sizeof(*vals_->data());
    }
    if (lens_ && !lens_->empty()) {
      into.lens = lens_->data();
      into.lens_count = lens_->size();
    }
    return into;
  }

 private:
  static void* place_vals(void* arg, size_t bytes) noexcept {
    PendingPull* self = static_cast<PendingPull*>(arg);
#ifdef PSLITE_DIALECT_BYTEPS
    return place(self->vals_, bytes, true);
#else
    return place(self->vals_, bytes, self->lens_ != nullptr);
#endif
  }
  static void* place_lens(void* arg, size_t bytes) noexcept {
    return place(static_cast<PendingPull*>(arg)->lens_, bytes, false);
  }

  Vals* const vals_;
  Lens* const lens_;
};

template <typename Val>
pslite_kv lend(const KVPairs<Val>& kvs) {
  const pslite_kv kv = {lend(kvs.keys), lend(kvs.vals), lend(kvs.lens)};
  return kv;
}

}  // namespace abi

// A worker's side: it pushes values of keys to the servers and pulls them. All calls but the constructor and set_slicer
// may come from several threads at once. Keys must be sorted. What cannot be sent throws dmlc::Error; what fails later
// makes Wait throw, and, if it had a callback, is logged and thrown by the next request; the callback is not called then.
template <typename Val>
class KVWorker : public SimpleApp {
 public:
  using SimpleApp::obj_;
  // On the customer's thread, before Wait returns; or, if no server was asked, on the caller's.
  typedef std::function<void()> Callback;

  // instance_idx: which worker of this process (BytePS).
  explicit KVWorker(int app_id, int customer_id, int instance_idx = 0) : SimpleApp() {
    Postoffice* postoffice = Postoffice::GetWorker(instance_idx);
    make_customer(app_id, customer_id, postoffice);
    abi::check(pslite_worker_attach(obj_->handle(), sizeof(Val)), "ps::KVWorker");
    obj_->open();
  }
  virtual ~KVWorker() { end_customer(); }

  // With vectors: they are copied before the call returns.
  int Push(const std::vector<Key>& keys, const std::vector<Val>& vals, const std::vector<int>& lens = {}, int cmd = 0,
           const Callback& cb = nullptr, int priority = 0) {
    return ZPush(SArray<Key>(keys), SArray<Val>(vals), SArray<int>(lens), cmd, cb, priority);
  }

  // vals, lens: filled before the callback; empty ones are resized, others must fit. A larger array of values is fine if
  // lens are asked for.
  int Pull(const std::vector<Key>& keys, std::vector<Val>* vals, std::vector<int>* lens = nullptr, int cmd = 0,
           const Callback& cb = nullptr, int priority = 0) {
    return pull(SArray<Key>(keys), vals, lens, cmd, cb, priority);
  }

  // Pushes vals, and pulls into outs.
  int PushPull(const std::vector<Key>& keys, const std::vector<Val>& vals, std::vector<Val>* outs,
               std::vector<int>* lens = nullptr, int cmd = 0, const Callback& cb = nullptr, int priority = 0) {
    CHECK(outs) << "PushPull needs an array for the values";
    if (outs->empty()) {
      outs->resize(vals.size());
    } else {
      CHECK_EQ(vals.size(), outs->size());
    }
    KVPairs<Val> kvs = pairs(SArray<Key>(keys), SArray<Val>(vals), priority);
    if (lens) kvs.lens.CopyFrom(lens->data(), lens->size());
    return push_pull(kvs, outs, lens, cmd, cb);
  }

  // Blocks until the request is over. Throws dmlc::Error if it failed.
  void Wait(int timestamp) override { obj_->WaitRequest(timestamp); }

  // Without a copy: the arrays are kept until they are sent. Memory that the caller only lent to them must not be
  // changed before the request is over.
  int ZPush(const SArray<Key>& keys, const SArray<Val>& vals, const SArray<int>& lens = {}, int cmd = 0,
            const Callback& cb = nullptr, int priority = 0) {
    KVPairs<Val> kvs = pairs(keys, vals, priority);
    kvs.lens = lens;
    return push(kvs, cmd, cb);
  }
  int ZPull(const SArray<Key>& keys, SArray<Val>* vals, SArray<int>* lens = nullptr, int cmd = 0,
            const Callback& cb = nullptr, int priority = 0) {
    return pull(keys, vals, lens, cmd, cb, priority);
  }
  int ZPushPull(const SArray<Key>& keys, const SArray<Val>& vals, SArray<Val>* outs, SArray<int>* lens = nullptr,
                int cmd = 0, const Callback& cb = nullptr, int priority = 0) {
    CHECK(outs) << "ZPushPull needs an array for the values";
    if (outs->empty()) {
      outs->resize(vals.size());
    } else {
      CHECK_EQ(vals.size(), outs->size());
    }
    KVPairs<Val> kvs = pairs(keys, vals, priority);
    if (lens) kvs.lens = *lens;
    return push_pull(kvs, outs, lens, cmd, cb);
  }

  // For each server whether it is asked, and what it gets.
  typedef std::vector<std::pair<bool, KVPairs<Val>>> SlicedKVs;
  // Cuts a request by the servers' ranges.
  typedef std::function<void(const KVPairs<Val>& send, const std::vector<Range>& ranges, SlicedKVs* sliced)> Slicer;
  // Before the first request.
  void set_slicer(const Slicer& slicer) {
    CHECK(slicer);
    slicer_ = slicer;
  }

  // Set by vans of BytePS's ps-lite that write into remote memory; never here.
  bool is_worker_zpull_ = false;

 protected:
  void Process(const Message& message) override {
    if (message.meta.simple_app) return SimpleApp::Process(message);
    pslite_log(1, "dropped a request for values: this node is a worker");
  }

 private:
  static KVPairs<Val> pairs(const SArray<Key>& keys, const SArray<Val>& vals, int priority) {
    KVPairs<Val> kvs;
    kvs.keys = keys;
    kvs.vals = vals;
    kvs.priority = priority;
    return kvs;
  }

  Van* van() { return obj_->postoffice()->van(); }

  int push(const KVPairs<Val>& kvs, int cmd, const Callback& cb) {
    untold_->raise();
    if (slicer_) return ask_sliced(kvs, new abi::Pending(cb, untold_, van()), nullptr, true, cmd);
    abi::Pending* pending = new abi::Pending(cb, untold_, van());
    const pslite_kv kv = abi::lend(kvs);
    int timestamp = -1;
    const int status = pslite_worker_push(obj_->handle(), &kv, cmd, kvs.priority, abi::Pending::ended, pending,
                                          &timestamp);
    pending->settle(status, "ps::KVWorker::Push");
    return timestamp;
  }

  template <typename Vals, typename Lens>
  int pull(const SArray<Key>& keys, Vals* vals, Lens* lens, int cmd, const Callback& cb, int priority) {
    CHECK(vals) << "a pull needs an array for the values";
    untold_->raise();
    auto* pending = new abi::PendingPull<Vals, Lens>(vals, lens, cb, untold_, van());
    const pslite_destination into = pending->destination();
    if (slicer_) return ask_sliced(pairs(keys, SArray<Val>(), priority), pending, &into, false, cmd);
    int timestamp = -1;
    const int status = pslite_worker_pull(obj_->handle(), abi::lend(keys), &into, cmd, priority, abi::Pending::ended,
                                          static_cast<abi::Pending*>(pending), &timestamp);
    pending->settle(status, "ps::KVWorker::Pull");
    return timestamp;
  }

  template <typename Vals, typename Lens>
  int push_pull(const KVPairs<Val>& kvs, Vals* outs, Lens* lens, int cmd, const Callback& cb) {
    untold_->raise();
    auto* pending = new abi::PendingPull<Vals, Lens>(outs, lens, cb, untold_, van());
    const pslite_destination into = pending->destination();
    if (slicer_) return ask_sliced(kvs, pending, &into, true, cmd);
    const pslite_kv kv = abi::lend(kvs);
    int timestamp = -1;
    const int status = pslite_worker_push_pull(obj_->handle(), &kv, &into, cmd, kvs.priority, abi::Pending::ended,
                                               static_cast<abi::Pending*>(pending), &timestamp);
    pending->settle(status, "ps::KVWorker::PushPull");
    return timestamp;
  }

  // A request that the application's slicer cuts. into: null if nothing comes back.
  int ask_sliced(const KVPairs<Val>& kvs, abi::Pending* pending, const pslite_destination* into, bool is_push,
                 int cmd) {
    Postoffice* postoffice = obj_->postoffice();
    SlicedKVs sliced;
    int timestamp = -1;
    int status = PSLITE_OK;
    try {
      slicer_(kvs, postoffice->GetServerKeyRanges(), &sliced);
      CHECK_LE(sliced.size(), static_cast<size_t>(postoffice->num_servers())) << "the slicer made too many slices";
    } catch (...) {
      pending->drop();
      pending->drop();
      throw;
    }
    status = into ? pslite_worker_expect_pull(obj_->handle(), abi::lend(kvs.keys), into, abi::Pending::ended, pending,
                                              &timestamp)
                  : pslite_worker_expect_push(obj_->handle(), abi::Pending::ended, pending, &timestamp);
    if (status == PSLITE_OK) {
      std::vector<pslite_part> parts;
      for (size_t i = 0; i < sliced.size(); ++i) {
        if (!sliced[i].first) continue;
        const pslite_part part = {static_cast<int32_t>(i), abi::lend(sliced[i].second)};
        parts.push_back(part);
      }
      status = pslite_worker_send_parts(obj_->handle(), timestamp, is_push, into != nullptr, cmd, kvs.priority,
                                        parts.data(), parts.size());
    }
    pending->settle(status, "ps::KVWorker");
    return timestamp;
  }

  Slicer slicer_;
  const std::shared_ptr<abi::Untold> untold_ = std::make_shared<abi::Untold>();
};

// What a server knows of a request besides its data. Copies may be kept to answer later.
struct KVMeta {
  int cmd;
  bool push;
  bool pull;
  // The worker's id; where processes have several nodes (BytePS's groups), that of the process.
  int sender;
  int timestamp;
  // The worker's customer.
  int customer_id;

  // BytePS: what vans use that write into remote memory. Not sent; `key` is the first one of the data.
  uint64_t key;
  uint64_t addr;
  int val_len;
  int option;
};

// KVServer has functions of its own by the names of two virtual ones, as upstream's has.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverloaded-virtual"

// A server's side: a handle of the application gets each request, and answers it, then or later.
template <typename Val>
class KVServer : public SimpleApp {
 public:
  // On the customer's thread, one request at a time. If it throws, the request fails at its worker with that text.
  // Arrays in `data` may be kept: they hold what arrived.
  typedef std::function<void(const KVMeta& meta, const KVPairs<Val>& data, KVServer* server)> ReqHandle;

  // is_scheduler, instance_idx: which node of this process (BytePS).
  explicit KVServer(int app_id, bool is_scheduler = false, int instance_idx = 0)
      : SimpleApp(), instance_idx_(instance_idx) {
    Postoffice* postoffice = is_scheduler ? Postoffice::GetScheduler() : Postoffice::GetServer(instance_idx);
    make_customer(app_id, app_id, postoffice);
    abi::check(pslite_server_attach(obj_->handle()), "ps::KVServer");
    obj_->open();
  }
  virtual ~KVServer() {
    handle_.end();
    end_customer();
  }

  // Requests that came before wait for it. It hides SimpleApp's, which takes the handle of commands.
  void set_request_handle(const ReqHandle& request_handle) {
    CHECK(request_handle) << "invalid request handle";
    handle_.set(request_handle);
  }

  // Answers a request: once, from any thread, also later. The arrays are kept until they are sent, and must not be
  // changed before. If the worker is gone, that is logged.
  void Response(const KVMeta& req, const KVPairs<Val>& res = KVPairs<Val>()) { respond(req, res, nullptr); }

  // From now on the values of that worker's pushes of that key are copied to the given array before the handle gets
  // them, as which they are then seen (BytePS).
  void RegisterRecvBufferWithRank(int worker_rank, SArray<Key>& keys, const SArray<Val>& vals,
                                  const SArray<int>& lens = {}, int cmd = 0) {
    register_buffer(Postoffice::WorkerRankToID(worker_rank), keys, vals, lens, cmd);
  }
  void RegisterRecvBuffer(int worker_id, SArray<Key>& keys, const SArray<Val>& vals, const SArray<int>& lens = {},
                          int cmd = 0) {
    register_buffer(worker_id, keys, vals, lens, cmd);
  }

  int instance_idx_;

 protected:
  void Process(const Message& message) override {
    if (message.meta.simple_app) return SimpleApp::Process(message);
    if (!message.meta.request) return;
    const ReqHandle* handle = handle_.wait();
    if (!handle) return;
    KVMeta meta = request_of(message.meta);
    try {
      KVPairs<Val> data;
      if (message.data.size() >= 2) {
        data.keys = message.data[0];
        data.vals = message.data[1];
        if (message.data.size() >= 3) data.lens = message.data[2];
      }
      if (!data.keys.empty()) meta.key = data.keys[0];
      if (meta.push) use_buffer(meta, &data);
      (*handle)(meta, data, this);
    } catch (...) {
      const std::string text = "the server could not serve the request: " + abi::text_of(std::current_exception());
      pslite_log(0, text.c_str());
      respond(meta, KVPairs<Val>(), text.c_str());
    }
  }

 private:
  KVMeta request_of(const Meta& meta) {
    KVMeta request = KVMeta();
    request.cmd = meta.head;
    request.push = meta.push;
    request.pull = meta.pull;
    Postoffice* const postoffice = obj_->postoffice();
    const bool is_grouped = postoffice->group_size() > 1;
    request.sender =
        is_grouped ? Postoffice::WorkerRankToID(postoffice->InstanceIDtoGroupRank(meta.sender)) : meta.sender;
    request.timestamp = meta.timestamp;
    request.customer_id = meta.customer_id;
    return request;
  }

  void respond(const KVMeta& request, const KVPairs<Val>& data, const char* error) {
    pslite_meta meta;
    std::memset(&meta, 0, sizeof meta);
    meta.head = abi::to_abi(request.cmd);
    meta.app_id = obj_->app_id();
    meta.customer_id = abi::to_abi(request.customer_id);
    meta.timestamp = request.timestamp;
    Postoffice* const postoffice = obj_->postoffice();
    const bool is_grouped = postoffice->group_size() > 1;
    meta.sender = is_grouped ? postoffice->GroupWorkerRankToInstanceID(Postoffice::IDtoRank(request.sender), instance_idx_)
                             : request.sender;
    meta.push = request.push;
    meta.pull = request.pull;
    meta.error = error;
    const pslite_kv kv = abi::lend(data);
    if (pslite_server_respond(obj_->handle(), &meta, &kv) != PSLITE_OK) pslite_log(1, pslite_last_error());
  }

  void register_buffer(int worker_id, const SArray<Key>& keys, const SArray<Val>& vals, const SArray<int>& lens, int) {
    CHECK_EQ(keys.size(), static_cast<size_t>(1)) << "a buffer is for one key";
    CHECK(lens.empty() || lens[0] == static_cast<int>(vals.size())) << "the length is not that of the buffer";
    std::lock_guard<std::mutex> lock(buffers_mutex_);
    buffers_[std::make_pair(worker_id, keys[0])] = vals;
    has_buffers_ = true;
  }

  void use_buffer(const KVMeta& meta, KVPairs<Val>* data) {
    if (!has_buffers_ || data->keys.size() != 1) return;
    std::lock_guard<std::mutex> lock(buffers_mutex_);
    const auto found = buffers_.find(std::make_pair(meta.sender, data->keys[0]));
    if (found == buffers_.end()) return;
    CHECK_EQ(found->second.size(), data->vals.size()) << "the buffer that was registered has another length";
    std::copy(data->vals.begin(), data->vals.end(), found->second.begin());
    data->vals = found->second;
  }

  abi::LateHandle<ReqHandle> handle_;
  std::mutex buffers_mutex_;
  std::map<std::pair<int, Key>, SArray<Val>> buffers_;
  std::atomic<bool> has_buffers_{false};
};

#pragma GCC diagnostic pop

// A handle that adds what is pushed to its store, one value for each key, and gives that to those who pull.
template <typename Val>
struct KVServerDefaultHandle {
  void operator()(const KVMeta& req_meta, const KVPairs<Val>& req_data, KVServer<Val>* server) {
    const size_t n = req_data.keys.size();
    if (req_meta.push) {
      CHECK_EQ(n, req_data.vals.size()) << "one value for each key";
    }
    KVPairs<Val> res;
    if (req_meta.pull || !req_meta.push) {
      res.keys = req_data.keys;
      res.vals.resize(n);
    }
    for (size_t i = 0; i < n; ++i) {
      Val& value = store[req_data.keys[static_cast<int>(i)]];
      if (req_meta.push) value += req_data.vals[static_cast<int>(i)];
      if (!res.vals.empty()) res.vals[static_cast<int>(i)] = value;
    }
    server->Response(req_meta, res);
  }

  std::unordered_map<Key, Val> store;
};

}  // namespace ps

#endif  // PS_KV_APP_H_
