// ps::KVWorker<char> and ps::KVServer<char> of the wheel. Values are never copied here: memory of
// MXNet is lent to the library until it is sent, and what arrived is lent to MXNet.
#include <cstring>
#include <new>
#include <stdexcept>

#include "errors.h"
#include "layout.h"

namespace ps {

namespace {

// Buffers up to here are copied by the library before the call returns (pslite.h).
const size_t kCopied = PSLITE_COPIED;

// Keeps an SArray alive while the library has its memory.
template <typename V>
pslite_buffer lend(const SArray<V>& array) {
  pslite_buffer buffer = {array.ptr_.get(), array.bytes(), nullptr, nullptr};
  if (buffer.size > kCopied) {
    buffer.release_arg = new std::shared_ptr<V>(array.ptr_);
    buffer.release = [](void* owner) { delete static_cast<std::shared_ptr<V>*>(owner); };
  }
  return buffer;
}

pslite_kv lend(const KVPairs<char>& kvs) {
  pslite_kv kv = {lend(kvs.keys), lend(kvs.vals), lend(kvs.lens)};
  return kv;
}

// What a request needs at its end.
struct Pending {
  Function done;
  SArray<char>* vals;
  SArray<int>* lens;
};

Pending* make_pending(const Function& done, SArray<char>* vals, SArray<int>* lens) {
  Pending* pending = new Pending();
  pending->done.copy_from(done);
  pending->vals = vals;
  pending->lens = lens;
  return pending;
}

void discard(Pending* pending) {
  pending->done.destroy();
  delete pending;
}

void ended(void* arg, int status, const char* error) {
  Pending* pending = static_cast<Pending*>(arg);
  pslite_mxnet::finish(pending->done, status, error);
  discard(pending);
}

// The rule of kv_app.h:695: an empty array is made to fit, any other must fit.
template <typename V>
void* place(SArray<V>* array, size_t bytes) {
  const size_t size = bytes / sizeof(V);
  if (bytes % sizeof(V)) return nullptr;
  if (array->size_ == 0 && size > 0) {
    V* data = new (std::nothrow) V[size];
    if (!data) return nullptr;
    array->ptr_.reset(data, [](V* p) { delete[] p; });
    array->size_ = array->capacity_ = size;
  }
  return array->size_ == size ? array->ptr_.get() : nullptr;
}

void* place_vals(void* arg, size_t bytes) { return place(static_cast<Pending*>(arg)->vals, bytes); }
void* place_lens(void* arg, size_t bytes) { return place(static_cast<Pending*>(arg)->lens, bytes); }

// A frame of a received message as an SArray that keeps the message.
template <typename V>
SArray<V> borrow(const pslite_message* message, size_t i) {
  SArray<V> array;
  const pslite_slice slice = pslite_message_frame(message, i);
  array.size_ = array.capacity_ = slice.size / sizeof(V);
  pslite_message_retain(message);
  array.ptr_.reset(static_cast<V*>(const_cast<void*>(slice.data)),
                   [message](V*) { pslite_message_release(message); });
  return array;
}

}  // namespace

template <typename Val>
KVWorker<Val>::~KVWorker() {
  // First the customer, whose thread may still run callbacks.
  if (this->obj_) {
    this->obj_->~Customer();
    ::operator delete(this->obj_);
    this->obj_ = nullptr;
  }
  slicer_.destroy();
  // MXNet's inlined constructor made these; nothing was ever put in.
  ::operator delete(recv_kvs_.buckets);
  ::operator delete(callbacks_.buckets);
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
  const pslite_kv kv = {lend(keys), lend(vals), lend(lens)};
  Pending* pending = make_pending(as_function(done), nullptr, nullptr);
  int timestamp = -1;
  const int status =
      pslite_worker_push(this->obj_->handle, &kv, cmd, priority, ended, pending, &timestamp);
  if (status != PSLITE_OK) {
    discard(pending);
    pslite_mxnet::raise("ps::KVWorker::ZPush");
  }
  return timestamp;
}

template <typename Val>
template <typename C, typename D>
int KVWorker<Val>::AddPullCB(const SArray<Key>& keys, C* vals, D* lens, int,
                             const std::function<void()>& done) {
  Pending* pending = make_pending(as_function(done), vals, lens);
  const pslite_destination into = {place_vals, lens ? place_lens : nullptr, pending};
  int timestamp = -1;
  const int status = pslite_worker_expect_pull(this->obj_->handle, lend(keys), &into, ended,
                                               pending, &timestamp);
  if (status != PSLITE_OK) {
    discard(pending);
    pslite_mxnet::raise("ps::KVWorker::ZPull");
  }
  return timestamp;
}

template <typename Val>
void KVWorker<Val>::Send(int timestamp, bool push, bool pull, int cmd, const KVPairs<Val>& kvs) {
  const pslite_kv kv = lend(kvs);
  pslite_mxnet::check(
      pslite_worker_send(this->obj_->handle, timestamp, push, pull, cmd, kvs.priority, &kv),
      "ps::KVWorker::Send");
}

template <typename Val>
KVServer<Val>::~KVServer() {
  if (this->obj_) {
    this->obj_->~Customer();
    ::operator delete(this->obj_);
    this->obj_ = nullptr;
  }
  kv_handle_.destroy();
}

template <typename Val>
void KVServer<Val>::Process(const Message& message) {
  pslite_meta meta;
  pslite_message_meta(message.handle, &meta);
  if (meta.simple_app) return SimpleApp::Process(message);
  if (!meta.request || !kv_handle_.set()) return;
  KVMeta request = KVMeta();
  request.cmd = meta.head;
  request.push = meta.push != 0;
  request.pull = meta.pull != 0;
  request.sender = meta.sender;
  request.timestamp = meta.timestamp;
  request.customer_id = meta.customer_id;
  KVPairs<Val> data = KVPairs<Val>();
  const size_t frames = pslite_message_frames(message.handle);
  if (frames >= 2) {
    data.keys = borrow<Key>(message.handle, 0);
    data.vals = borrow<Val>(message.handle, 1);
    if (frames >= 3) data.lens = borrow<int>(message.handle, 2);
  }
  typedef void (*Invoke)(const void*, const KVMeta&, const KVPairs<Val>&, KVServer*);
  reinterpret_cast<Invoke>(kv_handle_.invoker)(&kv_handle_, request, data, this);
}

template <typename Val>
void KVServer<Val>::Response(const KVMeta& request, const KVPairs<Val>& kvs) {
  pslite_meta meta = pslite_meta();
  meta.head = request.cmd;
  meta.push = request.push;
  meta.pull = request.pull;
  meta.sender = request.sender;
  meta.timestamp = request.timestamp;
  meta.customer_id = request.customer_id;
  const pslite_kv kv = lend(kvs);
  // On the customer's thread: a worker that is gone must not end the server.
  if (pslite_server_respond(this->obj_->handle, &meta, &kv) != PSLITE_OK) {
    pslite_log(1, pslite_last_error());
  }
}

template class KVWorker<char>;
template int KVWorker<char>::AddPullCB<SArray<char>, SArray<int>>(const SArray<Key>&, SArray<char>*,
                                                                  SArray<int>*, int,
                                                                  const std::function<void()>&);
template class KVServer<char>;

}  // namespace ps
