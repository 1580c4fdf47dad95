// ps::KVServer<char> of the wheel: requests to MXNet's handler, and its answers. Values are never
// copied here: what arrived is lent to MXNet, what MXNet answers is lent to the library.
#include <exception>
#include <string>

#include "arrays.h"
#include "errors.h"
#include "layout.h"
#include "python.h"

namespace ps {

namespace {

KVMeta request_of(const pslite_meta& meta) {
  KVMeta request = KVMeta();
  request.cmd = meta.head;
  request.push = meta.push != 0;
  request.pull = meta.pull != 0;
  request.sender = meta.sender;
  request.timestamp = meta.timestamp;
  request.customer_id = meta.customer_id;
  return request;
}

pslite_meta meta_of(const KVMeta& request) {
  pslite_meta meta = pslite_meta();
  meta.head = request.cmd;
  meta.push = request.push;
  meta.pull = request.pull;
  meta.sender = request.sender;
  meta.timestamp = request.timestamp;
  meta.customer_id = request.customer_id;
  return meta;
}

}  // namespace

template <typename Val>
KVServer<Val>::~KVServer() {
  this->end_customer();
  kv_handle_.destroy();
}

template <typename Val>
void KVServer<Val>::Process(const Message& message) {
  pslite_meta meta;
  pslite_message_meta(message.handle, &meta);
  if (meta.simple_app) return SimpleApp::Process(message);
  if (!meta.request || !kv_handle_.set()) return;
  const KVMeta request = request_of(meta);
  KVPairs<Val> data = KVPairs<Val>();
  const size_t frames = pslite_message_frames(message.handle);
  if (frames >= 2) {
    data.keys = borrow<Key>(message.handle, 0);
    data.vals = borrow<Val>(message.handle, 1);
    if (frames >= 3) data.lens = borrow<int>(message.handle, 2);
  }
  try {
    kv_handle_.template call<const KVMeta&, const KVPairs<Val>&, KVServer*>(request, data, this);
  } catch (const std::exception& error) {
    // A CHECK of MXNet: stock's server dies of it and the job hangs. Ours says why to the worker
    // that asked, and to the log.
    const std::string text = std::string("the server could not serve the request: ") + error.what();
    pslite_log(0, text.c_str());
    meta.error = text.c_str();
    if (pslite_server_respond(this->obj_->handle_, &meta, nullptr) != PSLITE_OK) {
      pslite_log(1, pslite_last_error());
    }
  }
}

template <typename Val>
void KVServer<Val>::Response(const KVMeta& request, const KVPairs<Val>& kvs) {
  pslite_meta meta = meta_of(request);
  const std::string failure = pslite_mxnet::python_failure();
  if (!failure.empty()) {
    meta.error = failure.c_str();
    if (pslite_server_respond(this->obj_->handle_, &meta, nullptr) == PSLITE_OK) return;
    // A stock worker cannot be told: it goes on as it does with a stock server.
    meta.error = nullptr;
  }
  const pslite_kv kv = lend(kvs);
  // On the customer's thread: a worker that is gone must not end the server.
  if (pslite_server_respond(this->obj_->handle_, &meta, &kv) != PSLITE_OK) {
    pslite_log(1, pslite_last_error());
  }
}

template class KVServer<char>;

}  // namespace ps
