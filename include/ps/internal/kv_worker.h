// ps/internal/kv_worker.h: KVWorker, which pushes and pulls.
#ifndef PS_INTERNAL_KV_WORKER_H_
#define PS_INTERNAL_KV_WORKER_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "ps/base.h"
#include "ps/internal/abi.h"
#include "ps/internal/kv_pairs.h"
#include "ps/internal/kv_pending.h"
#include "ps/internal/postoffice.h"
#include "ps/range.h"
#include "ps/sarray.h"
#include "ps/simple_app.h"

namespace ps {

// A worker's side: it pushes values of keys to the servers and pulls them. All calls but the
// constructor and set_slicer may come from several threads at once. Keys must be sorted. What
// cannot be sent throws dmlc::Error; what fails later makes Wait throw, and, if it had a callback,
// is logged and thrown by the next request; the callback is not called then.
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
  int Push(const std::vector<Key>& keys, const std::vector<Val>& vals,
           const std::vector<int>& lens = {}, int cmd = 0, const Callback& cb = nullptr,
           int priority = 0) {
    return ZPush(SArray<Key>(keys), SArray<Val>(vals), SArray<int>(lens), cmd, cb, priority);
  }

  // vals, lens: filled before the callback; empty ones are resized, others must fit. A larger array
  // of values is fine if lens are asked for.
  int Pull(const std::vector<Key>& keys, std::vector<Val>* vals, std::vector<int>* lens = nullptr,
           int cmd = 0, const Callback& cb = nullptr, int priority = 0) {
    return pull(SArray<Key>(keys), vals, lens, cmd, cb, priority);
  }

  // Pushes vals, and pulls into outs.
  int PushPull(const std::vector<Key>& keys, const std::vector<Val>& vals, std::vector<Val>* outs,
               std::vector<int>* lens = nullptr, int cmd = 0, const Callback& cb = nullptr,
               int priority = 0) {
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

  // Without a copy: the arrays are kept until they are sent. Memory that the caller only lent to
  // them must not be changed before the request is over.
  int ZPush(const SArray<Key>& keys, const SArray<Val>& vals, const SArray<int>& lens = {},
            int cmd = 0, const Callback& cb = nullptr, int priority = 0) {
    KVPairs<Val> kvs = pairs(keys, vals, priority);
    kvs.lens = lens;
    return push(kvs, cmd, cb);
  }
  int ZPull(const SArray<Key>& keys, SArray<Val>* vals, SArray<int>* lens = nullptr, int cmd = 0,
            const Callback& cb = nullptr, int priority = 0) {
    return pull(keys, vals, lens, cmd, cb, priority);
  }
  int ZPushPull(const SArray<Key>& keys, const SArray<Val>& vals, SArray<Val>* outs,
                SArray<int>* lens = nullptr, int cmd = 0, const Callback& cb = nullptr,
                int priority = 0) {
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
  typedef std::function<void(const KVPairs<Val>& send, const std::vector<Range>& ranges,
                             SlicedKVs* sliced)>
      Slicer;
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
    abi::announce(kvs.vals);
    const int status = pslite_worker_push(obj_->handle(), &kv, cmd, kvs.priority,
                                          abi::Pending::ended, pending, &timestamp);
    pending->settle(status, "ps::KVWorker::Push");
    return timestamp;
  }

  template <typename Vals, typename Lens>
  int pull(const SArray<Key>& keys, Vals* vals, Lens* lens, int cmd, const Callback& cb,
           int priority) {
    CHECK(vals) << "a pull needs an array for the values";
    untold_->raise();
    auto* pending = new abi::PendingPull<Vals, Lens>(vals, lens, cb, untold_, van());
    const pslite_destination into = pending->destination();
    const SArray<Val> none = abi::empty_at(*vals);
    if (slicer_) return ask_sliced(pairs(keys, none, priority), pending, &into, false, cmd);
    int timestamp = -1;
    abi::announce(none);
    const int status =
        pslite_worker_pull(obj_->handle(), abi::lend(keys), &into, cmd, priority,
                           abi::Pending::ended, static_cast<abi::Pending*>(pending), &timestamp);
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
    abi::announce(kvs.vals);
    const int status =
        pslite_worker_push_pull(obj_->handle(), &kv, &into, cmd, kvs.priority, abi::Pending::ended,
                                static_cast<abi::Pending*>(pending), &timestamp);
    pending->settle(status, "ps::KVWorker::PushPull");
    return timestamp;
  }

  // A request that the application's slicer cuts. into: null if nothing comes back.
  int ask_sliced(const KVPairs<Val>& kvs, abi::Pending* pending, const pslite_destination* into,
                 bool is_push, int cmd) {
    Postoffice* postoffice = obj_->postoffice();
    SlicedKVs sliced;
    int timestamp = -1;
    int status = PSLITE_OK;
    try {
      slicer_(kvs, postoffice->GetServerKeyRanges(), &sliced);
      CHECK_LE(sliced.size(), static_cast<size_t>(postoffice->num_servers()))
          << "the slicer made too many slices";
    } catch (...) {
      pending->drop();
      pending->drop();
      throw;
    }
    status =
        into ? pslite_worker_expect_pull(obj_->handle(), abi::lend(kvs.keys), into,
                                         abi::Pending::ended, pending, &timestamp)
             : pslite_worker_expect_push(obj_->handle(), abi::Pending::ended, pending, &timestamp);
    if (status == PSLITE_OK) {
      std::vector<pslite_part> parts;
      for (size_t i = 0; i < sliced.size(); ++i) {
        if (!sliced[i].first) continue;
        const pslite_part part = {static_cast<int32_t>(i), abi::lend(sliced[i].second)};
        parts.push_back(part);
      }
      abi::announce(kvs.vals);
      status = pslite_worker_send_parts(obj_->handle(), timestamp, is_push, into != nullptr, cmd,
                                        kvs.priority, parts.data(), parts.size());
    }
    pending->settle(status, "ps::KVWorker");
    return timestamp;
  }

  Slicer slicer_;
  const std::shared_ptr<abi::Untold> untold_ = std::make_shared<abi::Untold>();
};

}  // namespace ps

#endif  // PS_INTERNAL_KV_WORKER_H_
