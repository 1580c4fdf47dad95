// ps/internal/kv_server.h: KVServer, which answers.
#ifndef PS_INTERNAL_KV_SERVER_H_
#define PS_INTERNAL_KV_SERVER_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "ps/base.h"
#include "ps/internal/abi.h"
#include "ps/internal/kv_pairs.h"
#include "ps/internal/postoffice.h"
#include "ps/sarray.h"
#include "ps/simple_app.h"

namespace ps {

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

  // BytePS: what vans use that write into remote memory. Not sent; `key` is the first one of the
  // data.
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
  // On the customer's thread, one request at a time. If it throws, the request fails at its worker
  // with that text. Arrays in `data` may be kept: they hold what arrived.
  typedef std::function<void(const KVMeta& meta, const KVPairs<Val>& data, KVServer* server)>
      ReqHandle;

  // is_scheduler, instance_idx: which node of this process (BytePS).
  explicit KVServer(int app_id, bool is_scheduler = false, int instance_idx = 0)
      : SimpleApp(), instance_idx_(instance_idx) {
    Postoffice* postoffice =
        is_scheduler ? Postoffice::GetScheduler() : Postoffice::GetServer(instance_idx);
    make_customer(app_id, app_id, postoffice);
    abi::check(pslite_server_attach(obj_->handle()), "ps::KVServer");
    obj_->open();
  }
  virtual ~KVServer() {
    handle_.end();
    end_customer();
  }

  // Requests that came before wait for it. It hides SimpleApp's, which takes the handle of
  // commands.
  void set_request_handle(const ReqHandle& request_handle) {
    CHECK(request_handle) << "invalid request handle";
    handle_.set(request_handle);
  }

  // Answers a request: once, from any thread, also later. The arrays are kept until they are sent,
  // and must not be changed before. If the worker is gone, that is logged.
  void Response(const KVMeta& req, const KVPairs<Val>& res = KVPairs<Val>()) {
    respond(req, res, nullptr);
  }

  // From now on the values of that worker's pushes of that key are copied to the given array before
  // the handle gets them, as which they are then seen (BytePS).
  void RegisterRecvBufferWithRank(int worker_rank, SArray<Key>& keys, const SArray<Val>& vals,
                                  const SArray<int>& lens = {}, int cmd = 0) {
    register_buffer(Postoffice::WorkerRankToID(worker_rank), keys, vals, lens, cmd);
  }
  void RegisterRecvBuffer(int worker_id, SArray<Key>& keys, const SArray<Val>& vals,
                          const SArray<int>& lens = {}, int cmd = 0) {
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
      const std::string text =
          "the server could not serve the request: " + abi::text_of(std::current_exception());
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
        is_grouped ? Postoffice::WorkerRankToID(postoffice->InstanceIDtoGroupRank(meta.sender))
                   : meta.sender;
    request.timestamp = meta.timestamp;
    request.customer_id = meta.customer_id;
    return request;
  }

  void respond(const KVMeta& request, const KVPairs<Val>& data, const char* error) {
    pslite_meta meta = abi::answer_to(request, request.cmd, obj_->app_id(), error);
    Postoffice* const postoffice = obj_->postoffice();
    if (postoffice->group_size() > 1) {
      meta.sender = postoffice->GroupWorkerRankToInstanceID(Postoffice::IDtoRank(request.sender),
                                                            instance_idx_);
    }
    meta.push = request.push;
    meta.pull = request.pull;
    const pslite_kv kv = abi::lend(data);
    abi::announce(data.vals);
    if (pslite_server_respond(obj_->handle(), &meta, &kv) != PSLITE_OK)
      pslite_log(1, pslite_last_error());
  }

  void register_buffer(int worker_id, const SArray<Key>& keys, const SArray<Val>& vals,
                       const SArray<int>& lens, int) {
    CHECK_EQ(keys.size(), static_cast<size_t>(1)) << "a buffer is for one key";
    CHECK(lens.empty() || lens[0] == static_cast<int>(vals.size()))
        << "the length is not that of the buffer";
    std::lock_guard<std::mutex> lock(buffers_mutex_);
    buffers_[std::make_pair(worker_id, keys[0])] = vals;
    has_buffers_ = true;
  }

  void use_buffer(const KVMeta& meta, KVPairs<Val>* data) {
    if (!has_buffers_ || data->keys.size() != 1) return;
    std::lock_guard<std::mutex> lock(buffers_mutex_);
    const auto found = buffers_.find(std::make_pair(meta.sender, data->keys[0]));
    if (found == buffers_.end()) return;
    CHECK_EQ(found->second.size(), data->vals.size())
        << "the buffer that was registered has another length";
    std::copy(data->vals.begin(), data->vals.end(), found->second.begin());
    data->vals = found->second;
  }

  abi::LateHandle<ReqHandle> handle_;
  std::mutex buffers_mutex_;
  std::map<std::pair<int, Key>, SArray<Val>> buffers_;
  std::atomic<bool> has_buffers_{false};
};

#pragma GCC diagnostic pop

// A handle that adds what is pushed to its store, one value for each key, and gives that to those
// who pull.
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

#endif  // PS_INTERNAL_KV_SERVER_H_
