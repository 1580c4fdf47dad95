// ps::Postoffice and ps::Van of the wheel, over one pslite_node for the process. The object lives
// in libmxnet's own storage; MXNet reads van_ and the counts in it inline.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>

#include "errors.h"
#include "layout.h"
#include "process.h"
#include "wheel.h"

namespace ps {

struct PostofficeState {
  std::mutex mutex;
  std::vector<Range> ranges;
  std::map<int, std::vector<int>> groups;
  Van van;
};

namespace {

// What MXNet reads of the node without a call.
void refresh(Postoffice* office) {
  pslite_node_info info;
  if (pslite_node_describe(pslite_mxnet::process_node(), &info) != PSLITE_OK) return;
  Van& van = office->state->van;
  van.my_node_.role = info.role;
  van.my_node_.id = info.id;
  van.my_node_.customer_id = 0;
  van.my_node_.hostname = info.hostname;
  van.my_node_.port = info.port;
  van.my_node_.is_recovery = info.is_recovery != 0;
  van.ready_ = info.is_ready != 0;
  office->num_workers_ = info.num_workers;
  office->num_servers_ = info.num_servers;
}

}  // namespace

Postoffice::Postoffice() {
  memset(static_cast<void*>(this), 0, sizeof *this);
  state = new PostofficeState();
  van_ = &state->van;
  memset(&state->van.vptr, 0, sizeof(void*));
  state->van.ready_ = false;
  state->van.my_node_.id = PSLITE_EMPTY;
}

// Runs at the end of the process, when other threads may still be here: only the node is stopped,
// the state stays.
Postoffice::~Postoffice() { pslite_mxnet::stop_process_node(); }

void Postoffice::Start(int customer_id, const char*, const bool do_barrier) {
  const std::string unknown = pslite_mxnet::unknown_wheel();
  if (!unknown.empty()) throw std::runtime_error(unknown);
  pslite_node* node = pslite_mxnet::process_node();
  pslite_mxnet::check(pslite_start(node, customer_id, 0), "ps::Postoffice::Start");
  {
    std::lock_guard<std::mutex> lock(state->mutex);
    state->ranges.clear();
    state->groups.clear();
    refresh(this);
    // As stock (van.cc:167): applications look at it.
    pslite_node_info info;
    if (pslite_node_describe(node, &info) == PSLITE_OK) {
      char rank[16];
      snprintf(rank, sizeof rank, "%d", info.rank);
      setenv("DMLC_RANK", rank, 1);
    }
  }
  if (do_barrier) Barrier(customer_id, PSLITE_GROUP_ALL);
}

void Postoffice::Finalize(const int customer_id, const bool do_barrier) {
  const int status = pslite_finalize(pslite_mxnet::process_node(), customer_id, do_barrier);
  if (customer_id == 0) state->van.ready_ = false;
  pslite_mxnet::check(status, "ps::Postoffice::Finalize");
}

void Postoffice::Barrier(int customer_id, int group) {
  const bool leaving =
      group == PSLITE_GROUP_WORKERS && pslite_mxnet::in_kvstore_destructor();
  const int status = pslite_barrier(pslite_mxnet::process_node(), customer_id, group,
                                    leaving ? PSLITE_BARRIER_LEAVING : 0);
  pslite_mxnet::check(status, "ps::Postoffice::Barrier");
}

// Called from several OpenMP threads at once for row_sparse.
const std::vector<Range>& Postoffice::GetServerKeyRanges() {
  std::lock_guard<std::mutex> lock(state->mutex);
  if (state->ranges.empty()) {
    pslite_node* node = pslite_mxnet::process_node();
    size_t count = 0;
    pslite_mxnet::check(pslite_server_key_ranges(node, nullptr, 0, &count), "key ranges");
    std::vector<Range> ranges(count);
    pslite_server_key_ranges(node, reinterpret_cast<pslite_range*>(ranges.data()), count, &count);
    state->ranges.swap(ranges);
  }
  return state->ranges;
}

const std::vector<int>& Postoffice::GetNodeIDs(int group) const {
  std::lock_guard<std::mutex> lock(state->mutex);
  std::vector<int>& ids = state->groups[group];
  if (ids.empty()) {
    pslite_node* node = pslite_mxnet::process_node();
    size_t count = 0;
    pslite_mxnet::check(pslite_node_ids(node, group, nullptr, 0, &count), "node ids");
    ids.resize(count);
    pslite_node_ids(node, group, ids.data(), count, &count);
  }
  return ids;
}

std::vector<int> Postoffice::GetDeadNodes(int timeout) {
  pslite_node* node = pslite_mxnet::process_node();
  size_t count = 0;
  pslite_mxnet::check(pslite_dead_nodes(node, timeout, nullptr, 0, &count), "dead nodes");
  std::vector<int> ids(count);
  pslite_dead_nodes(node, timeout, ids.data(), ids.size(), &count);
  // Between the two calls the number may have changed.
  if (count < ids.size()) ids.resize(count);
  return ids;
}

const Node& Van::my_node() const {
  if (!ready_) throw std::runtime_error("ps::Van::my_node: call Start() first");
  return my_node_;
}

}  // namespace ps

namespace pslite_mxnet {

namespace {
std::mutex node_mutex;
pslite_node* node = nullptr;
}  // namespace

pslite_node* process_node() {
  std::lock_guard<std::mutex> lock(node_mutex);
  if (!node && pslite_node_new(setting, nullptr, &node) != PSLITE_OK) {
    throw std::runtime_error(pslite_last_error());
  }
  return node;
}

void stop_process_node() {
  std::lock_guard<std::mutex> lock(node_mutex);
  pslite_node_free(node);
  node = nullptr;
}

}  // namespace pslite_mxnet
