// ps::Customer of the wheel, over a pslite_customer. MXNet makes it before the node starts, inside
// the constructors of KVWorker and KVServer that are inlined into its code, and hands it a bound
// KVWorker::Process or KVServer::Process.
#include <stdexcept>

#include "errors.h"
#include "guard.h"
#include "kvstores.h"
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
    : app_id_(app_id),
      customer_id_(customer_id),
      node_(nullptr),
      handle_(nullptr),
      number_(customer_id),
      further_(false) {
  // The first call of ours in a process, and the first that writes to memory of MXNet.
  pslite_mxnet::refuse_unknown_wheel();
  node_ = pslite_mxnet::process_node();
  // Bad settings are reported by Start, where stock reads them.
  pslite_node_info info;
  const bool is_known = pslite_node_describe(node_, &info) == PSLITE_OK;
  const bool is_worker = is_known && info.role == PSLITE_WORKER;
  further_ = is_worker && info.is_ready;
  if (is_worker) number_ = pslite_mxnet::number_kvstore(customer_id, further_);
  // Of a further kvstore too rank 0 pushes the initial values: they are of keys of its own.
  if (further_) customer_id_ = 0;
  receive_.copy_from(as_function(receive));
  int status = pslite_customer_new(node_, app_id, number_, ps::receive, this, &handle_);
  if (status == PSLITE_OK && is_worker) status = pslite_worker_attach(handle_, sizeof(char));
  if (status == PSLITE_OK && further_) status = pslite_worker_own_keys(handle_);
  if (status != PSLITE_OK) {
    if (handle_) pslite_customer_free(handle_);
    handle_ = nullptr;
    receive_.destroy();
    pslite_mxnet::raise("ps::Customer");
    return;
  }
  if (is_worker) pslite_mxnet::kvstore_is_here(this);
  if (!is_known) return;
  if (info.role == PSLITE_SERVER) {
    pslite_server_attach(handle_);
    pslite_server_attach_store(handle_);
  }
}

Customer::~Customer() {
  pslite_mxnet::kvstore_is_gone(this);
  // A fork has no thread of the customer to wait for.
  if (!pslite_mxnet::is_forked()) pslite_customer_free(handle_);
  receive_.destroy();
}

}  // namespace ps
