// A server's main thread sits in MXNet's main loop (KVStoreDistServer::Run) until the command
// kStopServer comes. After a failure of the job it would never come: so we give it to the handler
// ourselves, on a thread of its own. That is safe beside the customer's thread, because the handler
// only puts an entry into a locked queue (Executor::Stop) and waits until the main loop has taken
// it; if the main thread is not in the loop yet, it takes it when it gets there. Then RunServer
// goes on to Finalize, which throws the reason. A second stop would find nobody to take it: there
// is only ever one, ours or a worker's.
#include "server_stop.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace pslite_mxnet {

namespace {

// MXNet's command that ends a server (kvstore_dist_server.h:45).
const int kStopServer = 2;
// The stop is out of MXNet's code a moment after the main loop has ended.
const std::chrono::seconds kStopLimit(5);

struct State {
  std::mutex mutex;
  std::condition_variable done;
  ps::SimpleApp* server = nullptr;
  bool stopped = false;  // a stop was given to the handler
  bool running = false;  // ours is in there
};

// Never destroyed: its thread may be here until the very end of the process.
State& state() {
  static State& state = *new State();
  return state;
}

void stop_server(ps::SimpleApp* server) {
  ps::SimpleData stop;
  stop.head = kStopServer;
  stop.sender = kNobody;
  stop.timestamp = 0;
  stop.customer_id = 0;
  try {
    server->request_handle_.call<const ps::SimpleData&, ps::SimpleApp*>(stop, server);
  } catch (const std::exception& error) {
    pslite_log(0, error.what());
  }
  std::lock_guard<std::mutex> lock(state().mutex);
  state().running = false;
  state().done.notify_all();
}

void job_failed(void*, const char*) {
  std::lock_guard<std::mutex> lock(state().mutex);
  if (!state().server || state().stopped || !state().server->request_handle_.set()) return;
  try {
    std::thread(stop_server, state().server).detach();
    state().stopped = true;
    state().running = true;
  } catch (const std::exception& error) {
    pslite_log(0, error.what());
  }
}

}  // namespace

void stop_on_failure(ps::SimpleApp* app) {
  pslite_node_info info;
  pslite_node* node = app->obj_ ? app->obj_->node_ : nullptr;
  if (!node || pslite_node_describe(node, &info) != PSLITE_OK || info.role != PSLITE_SERVER) return;
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    state().server = app;
    state().stopped = false;
  }
  pslite_on_failure(node, job_failed, nullptr);
}

void forget_server(ps::SimpleApp* app) {
  std::lock_guard<std::mutex> lock(state().mutex);
  if (state().server == app) state().server = nullptr;
}

bool may_handle(int head) {
  std::lock_guard<std::mutex> lock(state().mutex);
  if (head != kStopServer || !state().server) return true;
  if (state().stopped) return false;
  state().stopped = true;
  return true;
}

void wait_for_server_stop() {
  std::unique_lock<std::mutex> lock(state().mutex);
  state().done.wait_for(lock, kStopLimit, [] { return !state().running; });
}

}  // namespace pslite_mxnet
