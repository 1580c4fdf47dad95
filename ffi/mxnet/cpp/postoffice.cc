// ps::Postoffice and ps::Van of the wheel, over one pslite_node for the process. The object lives
// in libmxnet's own storage; MXNet reads van_ and the counts in it inline.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "errors.h"
#include "guard.h"
#include "kvstores.h"
#include "layout.h"
#include "process.h"
#include "python.h"
#include "server_stop.h"
#include "stack.h"

namespace ps {

namespace {

// What MXNet gets references to. They hold from Start to Finalize (postoffice.h:66), so nothing in
// here ever changes or goes away.
struct Lists {
  std::vector<Range> ranges;
  std::map<int, std::vector<int>> groups;
};

}  // namespace

struct PostofficeState {
  std::mutex mutex;
  // The lists of every job that this process was in; the last is the present one's.
  std::list<Lists> jobs;
  // GetServerKeyRanges is called for each row of row_sparse, from several threads.
  std::atomic<const std::vector<Range>*> ranges;
  Van van;
};

namespace {

// True in a server and a scheduler: their program is over when the job is.
bool serves_others() {
  pslite_node_info info;
  return !pslite_mxnet::is_forked() &&
         pslite_node_describe(pslite_mxnet::process_node(), &info) == PSLITE_OK &&
         info.role != PSLITE_WORKER;
}

// What MXNet reads of the node without a call.
void refresh(Postoffice* office) {
  pslite_node_info info;
  if (pslite_node_describe(pslite_mxnet::process_node(), &info) != PSLITE_OK) return;
  Node& node = office->state->van.my_node_;
  node.role = info.role;
  node.id = info.id;
  node.customer_id = 0;
  if (node.hostname != info.hostname) node.hostname = info.hostname;
  node.port = info.port;
  node.is_recovery = info.is_recovery != 0;
  office->num_workers_ = info.num_workers;
  office->num_servers_ = info.num_servers;
  office->state->van.ready_ = info.is_ready != 0;
  // As stock (van.cc:167): applications look at it.
  char rank[16];
  snprintf(rank, sizeof rank, "%d", info.rank);
  setenv("DMLC_RANK", rank, 1);
}

}  // namespace

Postoffice::Postoffice() {
  state = new PostofficeState();
  van_ = &state->van;
  van_->vptr = nullptr;
  van_->ready_ = false;
  van_->my_node_.id = PSLITE_EMPTY;
  state->ranges = nullptr;
  state->jobs.emplace_back();
  if (!pslite_mxnet::unknown_wheel().empty()) {
    // Start throws the same: but not everybody prints what a C function answered. Nothing behind
    // the first two words is touched, since nobody knows how large the object is.
    pslite_log(0, pslite_mxnet::unknown_wheel().c_str());
    return;
  }
  memset(middle, 0, sizeof middle);
  memset(tail, 0, sizeof tail);
  num_servers_ = 0;
  num_workers_ = 0;
}

// Runs at the end of the process, when other threads may still be here: only the node is stopped,
// the state stays.
Postoffice::~Postoffice() { pslite_mxnet::end_process_node(); }

void Postoffice::Start(int customer_id, const char*, const bool do_barrier) {
  pslite_mxnet::refuse_unknown_wheel();
  const int number = pslite_mxnet::number_of_kvstore(customer_id);
  pslite_mxnet::check(pslite_start(pslite_mxnet::process_node(), number, 0),
                      "ps::Postoffice::Start");
  {
    std::lock_guard<std::mutex> lock(state->mutex);
    // The first customer of a job; the others must not pull the lists from under its feet.
    if (!state->van.ready_) {
      pslite_mxnet::forget_failure();
      state->jobs.emplace_back();
      state->ranges = nullptr;
      refresh(this);
    }
  }
  if (do_barrier) Barrier(customer_id, PSLITE_GROUP_ALL);
}

void Postoffice::Finalize(const int customer_id, const bool do_barrier) {
  if (pslite_mxnet::in_kvstore_destructor() && pslite_mxnet::others_go_on()) return;
  if (customer_id == 0 && !pslite_mxnet::is_forked()) pslite_mxnet::wait_for_server_stop();
  const int status = pslite_finalize(pslite_mxnet::process_node(), customer_id, do_barrier);
  if (customer_id == 0 && !pslite_mxnet::is_forked()) {
    std::lock_guard<std::mutex> lock(state->mutex);
    state->van.ready_ = false;
    pslite_mxnet::job_is_over();
  }
  if (status != PSLITE_OK && serves_others()) {
    pslite_log(0, pslite_last_error());
    pslite_mxnet::show_no_traceback();
  }
  pslite_mxnet::check(status, "ps::Postoffice::Finalize");
}

void Postoffice::Barrier(int customer_id, int group) {
  const bool leaving = group == PSLITE_GROUP_WORKERS && pslite_mxnet::in_kvstore_destructor();
  // Python destroys kvstores in an order of its own on each worker: only the last one waits for the
  // others, for all.
  if (leaving && pslite_mxnet::others_go_on()) return;
  if (!leaving) pslite_mxnet::raise_remembered();
  const int number = leaving ? customer_id : pslite_mxnet::number_of_kvstore(customer_id);
  const int status = pslite_barrier(pslite_mxnet::process_node(), number, group,
                                    leaving ? PSLITE_BARRIER_LEAVING : 0);
  pslite_mxnet::check(status, "ps::Postoffice::Barrier");
}

const std::vector<Range>& Postoffice::GetServerKeyRanges() {
  const std::vector<Range>* known = state->ranges.load(std::memory_order_acquire);
  if (known) return *known;
  std::lock_guard<std::mutex> lock(state->mutex);
  std::vector<Range>& ranges = state->jobs.back().ranges;
  if (ranges.empty()) {
    pslite_node* node = pslite_mxnet::process_node();
    size_t count = 0;
    pslite_mxnet::check(pslite_server_key_ranges(node, nullptr, 0, &count),
                        "ps::Postoffice::GetServerKeyRanges");
    ranges.resize(count);
    pslite_server_key_ranges(node, reinterpret_cast<pslite_range*>(ranges.data()), count, &count);
  }
  if (!ranges.empty()) state->ranges.store(&ranges, std::memory_order_release);
  return ranges;
}

const std::vector<int>& Postoffice::GetNodeIDs(int group) const {
  std::lock_guard<std::mutex> lock(state->mutex);
  std::vector<int>& ids = state->jobs.back().groups[group];
  if (ids.empty()) {
    pslite_node* node = pslite_mxnet::process_node();
    size_t count = 0;
    pslite_mxnet::check(pslite_node_ids(node, group, nullptr, 0, &count),
                        "ps::Postoffice::GetNodeIDs");
    ids.resize(count);
    pslite_node_ids(node, group, ids.data(), ids.size(), &count);
  }
  return ids;
}

std::vector<int> Postoffice::GetDeadNodes(int timeout) {
  pslite_node* node = pslite_mxnet::process_node();
  size_t count = 0;
  pslite_mxnet::check(pslite_dead_nodes(node, timeout, nullptr, 0, &count),
                      "ps::Postoffice::GetDeadNodes");
  std::vector<int> ids(count);
  pslite_dead_nodes(node, timeout, ids.data(), ids.size(), &count);
  // Between the two calls the number may have changed.
  if (count < ids.size()) ids.resize(count);
  return ids;
}

const Node& Van::my_node() const {
  if (!ready_ && !pslite_mxnet::in_kvstore_destructor()) {
    pslite_mxnet::refuse_unknown_wheel();
    throw std::runtime_error("pslite: ps::Van::my_node: the node is not started, or was finalized");
  }
  return my_node_;
}

}  // namespace ps
