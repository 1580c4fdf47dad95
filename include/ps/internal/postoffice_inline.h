// ps/internal/postoffice_inline.h: what a postoffice, its van and its customers do with each other.
// Included by postoffice.h, which declares the first of them.
#ifndef PS_INTERNAL_POSTOFFICE_INLINE_H_
#define PS_INTERNAL_POSTOFFICE_INLINE_H_

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ps/internal/abi.h"
#include "ps/internal/customer.h"
#include "ps/internal/env.h"
#include "ps/internal/postoffice.h"
#include "ps/internal/van.h"
#include "ps/range.h"

namespace ps {

// ---- Postoffice

inline void Postoffice::Init(Node::Role role) {
  Offices& all = offices();
  std::lock_guard<std::mutex> lock(all.mutex);
  const int group = GetEnv("DMLC_GROUP_SIZE", 1);
  CHECK_GE(group, 1) << "DMLC_GROUP_SIZE";
  const int instances = role == Node::SCHEDULER ? 1 : group;
  all.is_by_role = true;
  all.scheduler = role == Node::SCHEDULER ? all.main : nullptr;
  all.servers.clear();
  all.workers.clear();
  size_t used = 0;
  const auto next = [&all, &used, group](Node::Role as) {
    if (used == all.all.size()) all.all.push_back(new Postoffice());
    Postoffice* const office = all.all[used++];
    office->set_role(as);
    office->set_group_size(group);
    return office;
  };
  if (role == Node::SCHEDULER) next(role);
  for (int i = 0; i < instances; ++i) {
    if (role == Node::SERVER || role == Node::JOINT) all.servers.push_back(next(Node::SERVER));
  }
  for (int i = 0; i < instances; ++i) {
    if (role == Node::WORKER || role == Node::JOINT) all.workers.push_back(next(Node::WORKER));
  }
}

// MXNet's kvstores number their keys from 0, each of them, and say the name of MXNet. The first
// ones of several threads may start together: they are workers of their own, and share their keys.
inline void Postoffice::refuse_second_kvstore(int customer_id, const char* argv0) const {
  const bool is_mxnet = argv0 && std::strcmp(argv0, "mxnet") == 0;
  if (!is_mxnet || customer_id == 0 || !is_worker() || !has_learned()) return;
  throw dmlc::Error(
      "ps::Postoffice::Start: a second kvstore of this process (customer " +
      std::to_string(customer_id) +
      ") cannot have keys of its own in an MXNet that was built against pslite's headers, and its "
      "keys would be those of the first. Use one kvstore for all, with other keys for other "
      "arrays, or the mxnet wheel with pslite preloaded");
}

inline void Postoffice::start(int customer_id, const char* argv0, bool do_barrier) {
  refuse_second_kvstore(customer_id, argv0);
  // BytePS answers pulls out of the memory that the next round is summed in (docs/divergences.md).
  // It says its name: "byteps", and the server of 0.2.5 "byteps_server".
  const bool is_byteps = argv0 && std::strncmp(argv0, "byteps", 6) == 0;
  if (is_byteps && GetEnv("BYTEPS_ENABLE_ASYNC", 0) == 0) {
    abi::check(pslite_node_set_hold_pushes(node_, 1), "ps::Postoffice::Start");
  }
  abi::check(pslite_start(node_, customer_id, do_barrier), "ps::Postoffice::Start");
  has_learned();
}

// What does not change in a job. The caller has the lock.
inline void Postoffice::learn(const pslite_node_info& info) const {
  nodes_.emplace_back();
  Node& node = nodes_.back();
  node.role = static_cast<Node::Role>(info.role);
  node.id = abi::from_abi(info.id);
  node.hostname = info.hostname;
  node.port = node.ports[0] = info.port;
  node.num_ports = 1;
  node.is_recovery = info.is_recovery != 0;
  node.aux_id = preferred_rank_;
  my_node_ = &node;
  known_workers_ = info.num_workers;
  known_servers_ = info.num_servers;
  known_verbose_ = info.verbose;
  is_started_ = true;
  // As upstream, where applications look at it; BytePS's does not, and reads it as a wish.
  if (role_ < 0) setenv("DMLC_RANK", std::to_string(info.rank).c_str(), 1);
}

// The job is over; the next one has other lists.
inline void Postoffice::forget() {
  std::lock_guard<std::mutex> lock(mutex_);
  is_started_ = false;
  my_node_ = nullptr;
  known_verbose_ = -1;
  ranges_ = nullptr;
  jobs_.emplace_back();
}

inline void Postoffice::Finalize(const int customer_id, const bool do_barrier) {
  const int status = pslite_finalize(node_, customer_id, do_barrier);
  const std::string reason = status == PSLITE_OK ? "" : pslite_last_error();
  if (customer_id == 0) {
    forget();
    if (exit_callback_) exit_callback_();
  }
  if (status != PSLITE_OK) throw dmlc::Error("ps::Postoffice::Finalize: " + reason);
}

inline Customer* Postoffice::GetCustomer(int app_id, int customer_id, int timeout) const {
  for (int waited = 0;; ++waited) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const auto found = customers_.find(std::make_pair(app_id, customer_id));
      if (found != customers_.end()) return found->second;
    }
    if (waited >= timeout * 1000) return nullptr;
    usleep(1000);
  }
}

inline const std::vector<int>& Postoffice::GetNodeIDs(int node_id) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = jobs_.back().groups.find(node_id);
  if (found != jobs_.back().groups.end()) return found->second;
  size_t count = 0;
  abi::check(pslite_node_ids(node_, node_id, nullptr, 0, &count), "ps::Postoffice::GetNodeIDs");
  std::vector<int> ids(count);
  abi::check(pslite_node_ids(node_, node_id, ids.data(), ids.size(), &count),
             "ps::Postoffice::GetNodeIDs");
  if (count < ids.size()) ids.resize(count);
  return jobs_.back().groups[node_id] = ids;
}

inline const std::vector<Range>& Postoffice::GetServerKeyRanges() {
  const std::vector<Range>* known = ranges_.load(std::memory_order_acquire);
  if (known) return *known;
  const bool is_known = has_learned();
  std::lock_guard<std::mutex> lock(mutex_);
  if (!is_known && !jobs_.back().ranges.empty()) jobs_.emplace_back();
  std::vector<Range>& ranges = jobs_.back().ranges;
  if (ranges.empty()) {
    size_t count = 0;
    abi::check(pslite_server_key_ranges(node_, nullptr, 0, &count),
               "ps::Postoffice::GetServerKeyRanges");
    std::vector<pslite_range> found(count);
    abi::check(pslite_server_key_ranges(node_, found.data(), count, &count),
               "ps::Postoffice::GetServerKeyRanges");
    for (const pslite_range& range : found) ranges.push_back(Range(range.begin, range.end));
  }
  // Before the start they may still change with the settings.
  if (is_known) ranges_.store(&ranges, std::memory_order_release);
  return ranges;
}

inline std::vector<int> Postoffice::GetDeadNodes(int timeout) {
  size_t count = 0;
  abi::check(pslite_dead_nodes(node_, timeout, nullptr, 0, &count), "ps::Postoffice::GetDeadNodes");
  std::vector<int> ids(count);
  abi::check(pslite_dead_nodes(node_, timeout, ids.data(), ids.size(), &count),
             "ps::Postoffice::GetDeadNodes");
  // Between the two calls the number may have changed.
  if (count < ids.size()) ids.resize(count);
  return ids;
}

// ---- Van

inline Van::Van() : postoffice_(Postoffice::Get()) {}

inline Van* Van::Create(const std::string& type, Postoffice* postoffice) {
  CHECK(type == "zmq" || type == "p3" || type == "0") << "Unsupported van type: " << type;
  return new Van(postoffice ? postoffice : Postoffice::Get());
}

inline void Van::Start(int customer_id) { postoffice_->start(customer_id, nullptr, false); }

inline void Van::Stop() {
  pslite_node_stop(postoffice_->node());
  postoffice_->forget();
}

inline const Node& Van::my_node() const {
  const Node* node = postoffice_->has_learned() ? postoffice_->my_node_.load() : nullptr;
  CHECK(node) << "the node is not started: call Start() first";
  return *node;
}

inline bool Van::IsReady() {
  pslite_node_info info;
  return pslite_node_describe(postoffice_->node(), &info) == PSLITE_OK && info.is_ready;
}

inline int Van::Send(const Message& message) {
  CHECK(message.meta.control.empty()) << "control messages are the library's own";
  const pslite_meta meta = abi::to_abi(message.meta);
  const std::vector<pslite_frame> frames = abi::lend(message);
  // Of data alone: without any, what else a message says of devices is what it says without this.
  if (!frames.empty()) {
    const pslite_devices devices = {message.meta.src_dev_type, message.meta.src_dev_id,
                                    message.meta.dst_dev_type, message.meta.dst_dev_id};
    abi::announce(OTHER, devices);
  }
  abi::check(pslite_send(postoffice_->node(), &meta, frames.data(), frames.size()),
             "ps::Van::Send");
  size_t bytes = 0;
  for (const SArray<char>& each : message.data) bytes += each.size();
  return static_cast<int>(bytes);
}

// ---- Customer

inline Customer::Customer(int app_id, int customer_id, const RecvHandle& recv_handle,
                          Postoffice* postoffice, Closed)
    : app_id_(app_id),
      customer_id_(customer_id),
      recv_handle_(recv_handle),
      postoffice_(postoffice ? postoffice : Postoffice::Get()) {
  abi::check(pslite_customer_new(postoffice_->node(), app_id, customer_id, receive, this, &handle_),
             "ps::Customer");
  postoffice_->AddCustomer(this);
}

inline Customer::~Customer() {
  postoffice_->RemoveCustomer(this);
  open();
  pslite_customer_free(handle_);
}

inline void Customer::Accept(const Message& received) {
  const pslite_meta meta = abi::to_abi(received.meta);
  const std::vector<pslite_frame> frames = abi::lend(received);
  abi::check(pslite_customer_accept(handle_, &meta, frames.data(), frames.size()),
             "ps::Customer::Accept");
}

}  // namespace ps

#endif  // PS_INTERNAL_POSTOFFICE_INLINE_H_
