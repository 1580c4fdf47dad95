// ps::Customer of the wheel, over a pslite_customer. MXNet makes it before the node starts, inside
// the constructors of KVWorker and KVServer that are inlined into its code, and hands it a bound
// KVWorker::Process or KVServer::Process.
#include <stdexcept>

#include "errors.h"
#include "guard.h"
#include "layout.h"
#include "process.h"

namespace ps {

namespace {

// Out of a callback nothing may be thrown: what no handler caught ends the process with its text,
// as in stock.
void receive(void* customer, const pslite_message* handle) noexcept {
  Message message = {handle};
  static_cast<Customer*>(customer)->receive_.call<const Message&>(message);
}

}  // namespace

Customer::Customer(int app_id, int customer_id, const std::function<void(const Message&)>& receive)
    : app_id_(app_id), customer_id_(customer_id), node_(nullptr), handle_(nullptr) {
  // The first call of ours in a process, and the first that writes to memory of MXNet.
  pslite_mxnet::refuse_unknown_wheel();
  node_ = pslite_mxnet::process_node();
  receive_.copy_from(as_function(receive));
  const int status =
      pslite_customer_new(node_, app_id, customer_id, ps::receive, this, &handle_);
  if (status != PSLITE_OK) {
    receive_.destroy();
    pslite_mxnet::raise("ps::Customer");
    return;
  }
  // Bad settings are reported by Start, where stock reads them.
  pslite_node_info info;
  if (pslite_node_describe(node_, &info) != PSLITE_OK) return;
  if (info.role == PSLITE_WORKER) pslite_worker_attach(handle_, sizeof(char));
  if (info.role == PSLITE_SERVER) {
    pslite_server_attach(handle_);
    pslite_server_attach_store(handle_);
  }
}

Customer::~Customer() {
  // A fork has no thread of the customer to wait for.
  if (!pslite_mxnet::is_forked()) pslite_customer_free(handle_);
  receive_.destroy();
}

}  // namespace ps
