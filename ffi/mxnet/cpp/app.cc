// ps::Customer and ps::SimpleApp of the wheel.
#include <new>
#include <stdexcept>
#include <thread>

#include "errors.h"
#include "layout.h"
#include "process.h"

namespace ps {

namespace {

// The sender of commands that nobody sent: their answers go nowhere.
const int kNobody = -2;
// MXNet's command that ends a server (kvstore_dist_server.h:45).
const int kStopServer = 2;

typedef void (*InvokeReceive)(const void*, const Message&);
typedef void (*InvokeSimple)(const void*, const SimpleData&, SimpleApp*);

void receive(void* customer, const pslite_message* handle) {
  const Function& receive = static_cast<Customer*>(customer)->receive;
  Message message = {handle};
  reinterpret_cast<InvokeReceive>(receive.invoker)(&receive, message);
}

}  // namespace

Customer::Customer(int app_id, int customer_id, const std::function<void(const Message&)>& handle_)
    : app_id_(app_id), customer_id_(customer_id), handle(nullptr) {
  receive.copy_from(as_function(handle_));
  const int status = pslite_customer_new(pslite_mxnet::process_node(), app_id, customer_id,
                                         ps::receive, this, &handle);
  if (status != PSLITE_OK) {
    receive.destroy();
    pslite_mxnet::raise("ps::Customer");
  }
  pslite_node_info info;
  if (pslite_node_describe(pslite_mxnet::process_node(), &info) == PSLITE_OK) {
    if (info.role == PSLITE_WORKER) pslite_worker_attach(handle, 1);
    if (info.role == PSLITE_SERVER) pslite_server_attach(handle);
  }
}

Customer::~Customer() {
  pslite_customer_free(handle);
  receive.destroy();
}

SimpleApp::~SimpleApp() {
  if (obj_) {
    obj_->~Customer();
    ::operator delete(obj_);
    obj_ = nullptr;
  }
  request_handle_.destroy();
  response_handle_.destroy();
}

int SimpleApp::Request(int head, const std::string& body, int recv_id) {
  int timestamp = -1;
  pslite_mxnet::check(pslite_simple_request(obj_->handle, head, body.data(), body.size(), recv_id,
                                            &timestamp),
                      "ps::SimpleApp::Request");
  return timestamp;
}

void SimpleApp::Wait(int timestamp) {
  pslite_mxnet::check(pslite_customer_wait(obj_->handle, timestamp), "ps::SimpleApp::Wait");
}

// On the customer's thread: nobody there could catch an exception, so a failure is logged.
void SimpleApp::Response(const SimpleData& request, const std::string& body) {
  if (request.sender == kNobody) return;
  pslite_meta meta = pslite_meta();
  meta.head = request.head;
  meta.app_id = obj_->app_id_;
  meta.customer_id = request.customer_id;
  meta.timestamp = request.timestamp;
  meta.sender = request.sender;
  if (pslite_simple_respond(obj_->handle, &meta, body.data(), body.size()) != PSLITE_OK) {
    pslite_log(1, pslite_last_error());
  }
}

void SimpleApp::set_request_handle(const Function& handle) {
  request_handle_.destroy();
  request_handle_.copy_from(handle);
  pslite_node_info info;
  if (pslite_node_describe(pslite_mxnet::process_node(), &info) == PSLITE_OK &&
      info.role == PSLITE_SERVER) {
    // When the job fails, MXNet's main loop must end: as if it had been told to stop.
    pslite_on_failure(
        pslite_mxnet::process_node(),
        [](void* app, const char*) {
          // Its own thread: MXNet answers only when its main loop has heard it.
          std::thread([app] {
            SimpleApp* self = static_cast<SimpleApp*>(app);
            SimpleData stop;
            stop.head = kStopServer;
            stop.sender = kNobody;
            stop.timestamp = 0;
            stop.customer_id = 0;
            const Function& handle = self->request_handle_;
            reinterpret_cast<InvokeSimple>(handle.invoker)(&handle, stop, self);
          }).detach();
        },
        this);
  }
}

void SimpleApp::set_response_handle(const Function& handle) {
  response_handle_.destroy();
  response_handle_.copy_from(handle);
}

Customer* SimpleApp::get_customer() { return obj_; }

void SimpleApp::Process(const Message& message) {
  pslite_meta meta;
  pslite_message_meta(message.handle, &meta);
  SimpleData data;
  data.head = meta.head;
  data.body.assign(meta.body_size ? meta.body : "", meta.body_size);
  data.sender = meta.sender;
  data.timestamp = meta.timestamp;
  data.customer_id = meta.customer_id;
  const Function& handle = meta.request ? request_handle_ : response_handle_;
  if (!handle.set()) return;
  reinterpret_cast<InvokeSimple>(handle.invoker)(&handle, data, this);
}

}  // namespace ps
