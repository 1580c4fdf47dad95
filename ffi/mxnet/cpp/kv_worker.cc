// ps::KVWorker<char> of the wheel: push and pull. MXNet's code holds its constructor, ZPull and
// ZPushPull inlined; those two come here as AddPullCB, then Send, on one thread.
#include "arrays.h"
#include "completion.h"
#include "errors.h"
#include "layout.h"

namespace ps {

namespace {

// What a request needs at its end.
struct Pending {
  Pending(const std::function<void()>& done, SArray<char>* vals, SArray<int>* lens)
      : completion(as_function(done)), vals(vals), lens(lens) {}

  pslite_mxnet::Completion completion;
  SArray<char>* vals;
  SArray<int>* lens;
};

// The pull that AddPullCB registered last on this thread: if its Send fails, its end never comes.
thread_local Pending* unsent = nullptr;
thread_local int unsent_timestamp = -1;
// Its keys, if they name rows.
thread_local const SArray<Key>* unsent_rows = nullptr;

// True if that command is about rows of a row_sparse array, of any type: the kind and the type as
// one number (GetCommandType).
bool is_of_rows(int cmd) {
  const int kRowSparse = 1, kTypes = 13;
  for (int type = 0; type < kTypes; ++type) {
    const int diagonal = kRowSparse + type;
    if (cmd == diagonal * (diagonal + 1) / 2 + type) return true;
  }
  return false;
}

// MXNet keeps the keys and lengths of its last request for an array (KVStoreDist::ps_kv_), and
// gives them here by reference if they name rows. The next dense request for the array would send
// those of the rows, or fail with `The value size cannot be changed`, before it comes here and the
// error of the one before could be thrown. When they are empty MXNet makes them anew, as it does
// for each request for rows. To be called before the request is sent: once it is over, another
// thread may make the array's next one.
template <typename V>
void forget(const SArray<V>& of_rows) {
  SArray<V>& array = const_cast<SArray<V>&>(of_rows);
  array.size_ = array.capacity_ = 0;
  array.ptr_.reset();
}

void ended(void* arg, int status, const char* error) noexcept {
  Pending* pending = static_cast<Pending*>(arg);
  const pslite_mxnet::Seen seen = pending->vals ? pslite_mxnet::kByArrays : pslite_mxnet::kByNobody;
  pending->completion.run(status, error, seen);
  delete pending;
}

void* place_vals(void* arg, size_t bytes) noexcept {
  return place(static_cast<Pending*>(arg)->vals, bytes);
}
void* place_lens(void* arg, size_t bytes) noexcept {
  return place(static_cast<Pending*>(arg)->lens, bytes);
}

}  // namespace

template <typename Val>
KVWorker<Val>::~KVWorker() {
  // First the customer, whose thread may still run callbacks.
  this->end_customer();
  slicer_.destroy();
  // MXNet's inlined constructor made these; nothing was ever put in.
  ::operator delete(callbacks_.buckets);
  ::operator delete(recv_kvs_.buckets);
}

template <typename Val>
void KVWorker<Val>::Wait(int timestamp) {
  SimpleApp::Wait(timestamp);
}

template <typename Val>
void KVWorker<Val>::Process(const Message& message) {
  pslite_meta meta;
  pslite_message_meta(message.handle, &meta);
  if (meta.simple_app) return SimpleApp::Process(message);
  pslite_log(1, "dropped a request for key-value data: this node is a worker");
}

template <typename Val>
int KVWorker<Val>::ZPush(const SArray<Key>& keys, const SArray<Val>& vals, const SArray<int>& lens,
                         int cmd, const std::function<void()>& done, int priority) {
  pslite_mxnet::raise_remembered();
  const SArray<Key> sent_keys = keys;
  const SArray<int> sent_lens = lens;
  if (is_of_rows(cmd)) {
    forget(keys);
    forget(lens);
  }
  const pslite_kv kv = {lend(sent_keys), lend(vals), lend(sent_lens)};
  Pending* pending = new Pending(done, nullptr, nullptr);
  int timestamp = -1;
  const int status =
      pslite_worker_push(this->obj_->handle_, &kv, cmd, priority, ended, pending, &timestamp);
  if (status != PSLITE_OK) {
    delete pending;
    // Of an error that is thrown here no array tells: a push writes none.
    pslite_mxnet::remember_failure(pslite_last_error());
    pslite_mxnet::raise("ps::KVWorker::ZPush");
  }
  return timestamp;
}

template <typename Val>
template <typename C, typename D>
int KVWorker<Val>::AddPullCB(const SArray<Key>& keys, C* vals, D* lens, int cmd,
                             const std::function<void()>& done) {
  pslite_mxnet::raise_remembered();
  const bool of_rows = is_of_rows(cmd);
  if (of_rows && lens) {
    // Nobody reads the lengths of rows.
    forget(*lens);
    lens = nullptr;
  }
  Pending* pending = new Pending(done, vals, lens);
  pslite_destination into = {place_vals, lens ? place_lens : nullptr, pending, nullptr, 0, nullptr,
                             0};
  // An empty array is made to fit when the values are here (arrays.h).
  if (vals->size_ > 0) {
    into.vals = vals->ptr_.get();
    into.vals_bytes = vals->bytes();
  }
  if (lens && lens->size_ > 0) {
    into.lens = lens->ptr_.get();
    into.lens_count = lens->size_;
  }
  int timestamp = -1;
  const int status =
      pslite_worker_expect_pull(this->obj_->handle_, lend(keys), &into, ended, pending, &timestamp);
  if (status != PSLITE_OK) {
    delete pending;
    pslite_mxnet::raise("ps::KVWorker::ZPull");
  }
  unsent = pending;
  unsent_timestamp = timestamp;
  unsent_rows = of_rows ? &keys : nullptr;
  return timestamp;
}

template <typename Val>
void KVWorker<Val>::Send(int timestamp, bool push, bool pull, int cmd, const KVPairs<Val>& kvs) {
  Pending* pending = unsent_timestamp == timestamp ? unsent : nullptr;
  const SArray<Key>* rows = pending ? unsent_rows : nullptr;
  unsent = nullptr;
  unsent_timestamp = -1;
  unsent_rows = nullptr;
  const pslite_kv kv = lend(kvs);
  if (rows) forget(*rows);
  const int status =
      pslite_worker_send(this->obj_->handle_, timestamp, push, pull, cmd, kvs.priority, &kv);
  if (status == PSLITE_OK) return;
  delete pending;
  pslite_mxnet::raise("ps::KVWorker::Send");
}

template class KVWorker<char>;
template int KVWorker<char>::AddPullCB<SArray<char>, SArray<int>>(const SArray<Key>&, SArray<char>*,
                                                                  SArray<int>*, int,
                                                                  const std::function<void()>&);

}  // namespace ps
