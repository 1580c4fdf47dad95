// ps::SimpleApp of the wheel: commands. Its vtable is part of those of KVWorker and KVServer.
#include <new>

#include "errors.h"
#include "kvstores.h"
#include "layout.h"
#include "python.h"
#include "server_stop.h"
#include "stack.h"

namespace ps {

namespace {

// What Request answers when it could not send, from where it may not throw: nothing to wait for.
const int kNothing = -1;
// MXNet's command that brings an optimizer (kvstore_dist_server.h:45).
const int kController = 0;
// MXNet's command that ends the servers.
const int kStopServer = 2;

}  // namespace

void SimpleApp::end_customer() {
  if (!obj_) return;
  obj_->~Customer();
  ::operator delete(obj_);
  obj_ = nullptr;
}

SimpleApp::~SimpleApp() {
  pslite_mxnet::forget_server(this);
  end_customer();
  response_handle_.destroy();
  request_handle_.destroy();
}

int SimpleApp::Request(int head, const std::string& body, int recv_id) {
  int timestamp = kNothing;
  // The servers stop with the last kvstore of the process.
  if (head == kStopServer && pslite_mxnet::in_kvstore_destructor() &&
      pslite_mxnet::others_go_on()) {
    return kNothing;
  }
  pslite_mxnet::check(pslite_simple_request(obj_->handle_, head, body.data(), body.size(), recv_id,
                                            &timestamp),
                      "ps::SimpleApp::Request");
  return timestamp;
}

void SimpleApp::Wait(int timestamp) {
  if (timestamp == kNothing) return;
  pslite_mxnet::check(pslite_customer_wait(obj_->handle_, timestamp), "ps::SimpleApp::Wait");
}

// On the customer's thread: nobody there could catch an exception, so a failure is logged. What
// failed in MXNet's Python is the answer to those who can be told of it.
void SimpleApp::Response(const SimpleData& request, const std::string& body) {
  if (request.sender == pslite_mxnet::kNobody) return;
  pslite_meta meta = pslite_meta();
  meta.head = request.head;
  meta.app_id = obj_->app_id_;
  meta.customer_id = request.customer_id;
  meta.timestamp = request.timestamp;
  meta.sender = request.sender;
  const std::string failure = pslite_mxnet::python_failure();
  if (!failure.empty()) meta.error = failure.c_str();
  if (pslite_simple_respond(obj_->handle_, &meta, body.data(), body.size()) != PSLITE_OK) {
    pslite_log(1, pslite_last_error());
  }
}

void SimpleApp::set_request_handle(const Function& handle) {
  request_handle_.destroy();
  request_handle_.copy_from(handle);
  pslite_mxnet::stop_on_failure(this);
}

void SimpleApp::set_response_handle(const Function& handle) {
  response_handle_.destroy();
  response_handle_.copy_from(handle);
}

// MXNet asks right before what it does with the number: barriers, and the end.
Customer* SimpleApp::get_customer() {
  pslite_mxnet::in_kvstore(obj_);
  return obj_;
}

void SimpleApp::Process(const Message& message) {
  pslite_meta meta;
  pslite_message_meta(message.handle, &meta);
  SimpleData data;
  data.head = meta.head;
  data.body.assign(meta.body_size ? meta.body : "", meta.body_size);
  data.sender = meta.sender;
  data.timestamp = meta.timestamp;
  data.customer_id = meta.customer_id;
  if (meta.request && meta.head == kController) pslite_mxnet::watch_python();
  const Function& handle = meta.request ? request_handle_ : response_handle_;
  if (meta.request && !pslite_mxnet::may_handle(meta.head)) return Response(data, "");
  if (handle.set()) handle.call<const SimpleData&, SimpleApp*>(data, this);
}

}  // namespace ps
