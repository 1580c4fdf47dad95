// ps/internal/postoffice.h: the door of a node: start, end, barriers, and what is known about the
// job.
//
// A process has one postoffice, whose role DMLC_ROLE says. With BytePS's StartPS the caller says
// the role; then there may be several, each a node of its own.
#ifndef PS_INTERNAL_POSTOFFICE_H_
#define PS_INTERNAL_POSTOFFICE_H_

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ps/base.h"
#include "ps/internal/abi.h"
#include "ps/internal/customer.h"
#include "ps/internal/env.h"
#include "ps/internal/van.h"
#include "ps/range.h"

namespace ps {

class Postoffice {
 public:
  typedef std::function<void()> Callback;

  // ---- which one

  // That of this process; if it has several, the scheduler's, else the first server's, else the
  // first worker's.
  static Postoffice* Get() { return offices().main; }
  // Those of StartPS; before it, or without it, that of this process. Throw dmlc::Error if there is
  // none.
  static Postoffice* GetWorker(int index = 0) {
    return of_role(offices().workers, index, "worker");
  }
  static Postoffice* GetServer(int index = 0) {
    Offices& all = offices();
    return all.scheduler ? all.scheduler : of_role(all.servers, index, "server");
  }
  // Null if this process is no scheduler.
  static Postoffice* GetScheduler() {
    Offices& all = offices();
    if (all.is_by_role) return all.scheduler;
    return all.main->is_scheduler() ? all.main : nullptr;
  }
  // Says the role of this process. Called by StartPS.
  static void Init(Node::Role role);

  // ---- a life

  // Joins the job; returns when it is complete and, with do_barrier, all are in.
  void Start(int customer_id, const char* argv0, const bool do_barrier) {
    start(customer_id, argv0, do_barrier);
  }
  // rank: the one that it wishes for, or -1; all nodes wish for one, or none.
  void Start(int customer_id, const Node::Role role, int rank, const bool do_barrier,
             const char* argv0) {
    set_role(role);
    preferred_rank_ = rank;
    abi::check(pslite_node_set_rank(node_, rank), "ps::Postoffice::Start");
    start(customer_id, argv0, do_barrier);
  }

  // Leaves the job. Customer 0 ends the node, others only leave the barrier.
  void Finalize(const int customer_id, const bool do_barrier = true);

  // Called at the end of Finalize of customer 0.
  void RegisterExitCallback(const Callback& callback) { exit_callback_ = callback; }

  // Returns when all of the group are here; for several customers of a process, when all of them
  // are.
  void Barrier(int customer_id, int node_group) {
    abi::check(pslite_barrier(node_, customer_id, node_group, 0), "ps::Postoffice::Barrier");
  }

  // ---- customers

  // Each customer calls these two by itself.
  void AddCustomer(Customer* customer) {
    std::lock_guard<std::mutex> lock(mutex_);
    const std::pair<int, int> name(customer->app_id(), customer->customer_id());
    CHECK(customers_.insert(std::make_pair(name, customer)).second)
        << "customer " << name.second << " of app " << name.first << " exists already";
  }
  void RemoveCustomer(Customer* customer) {
    std::lock_guard<std::mutex> lock(mutex_);
    customers_.erase(std::make_pair(customer->app_id(), customer->customer_id()));
  }
  // Null if there is none after `timeout` seconds.
  Customer* GetCustomer(int app_id, int customer_id, int timeout = 0) const;

  // ---- the job

  Van* van() { return &van_; }
  // The ids behind a group or id: workers, then servers, then the scheduler. Valid as long as the
  // process.
  const std::vector<int>& GetNodeIDs(int node_id) const;
  // One range for each server. Valid as long as the process.
  const std::vector<Range>& GetServerKeyRanges();
  // Nodes of which nothing was heard for that many seconds.
  std::vector<int> GetDeadNodes(int timeout = 60);

  static int WorkerRankToID(int rank) { return rank * 2 + 9; }
  static int ServerRankToID(int rank) { return rank * 2 + 8; }
  static int IDtoRank(int id) {
    const int rank = (id - 8) / 2;
    return rank > 0 ? rank : 0;
  }

  // Of the settings; before the start too.
  int num_workers() const { return count(&pslite_node_info::num_workers, known_workers_); }
  int num_servers() const { return count(&pslite_node_info::num_servers, known_servers_); }
  // A server that joined a running job has a key range of none: it says the rank of one of the
  // first servers. Applications take the beginning of "their" range off each key and put it back,
  // for which any range will do.
  int my_rank() const {
    const int rank = IDtoRank(van_.my_node().id), first = num_server_instances();
    return is_server() && first > 0 ? rank % first : rank;
  }
  bool is_worker() const { return role_str() == "worker"; }
  bool is_server() const { return role_str() == "server"; }
  bool is_scheduler() const { return role_str() == "scheduler"; }
  std::string role_str() const {
    const char* text = look_up("DMLC_ROLE");
    return text ? text : "";
  }
  int verbose() const {
    return known_verbose_ >= 0 ? known_verbose_.load() : GetEnv("PS_VERBOSE", 0);
  }
  // True if this node took the place of one that died.
  bool is_recovery() const { return van_.my_node().is_recovery; }

  // ---- groups (BytePS): a process has several nodes of its role, its instances; counts are those
  // of processes, ranks and ids those of nodes

  int group_size() const { return group_size_; }
  int num_worker_instances() const { return num_workers() * group_size(); }
  int num_server_instances() const { return num_servers() * group_size(); }
  int preferred_rank() const { return preferred_rank_; }
  int GroupWorkerRankToInstanceID(int rank, int instance) {
    return WorkerRankToID(rank * group_size() + instance);
  }
  int GroupServerRankToInstanceID(int rank, int instance) {
    return ServerRankToID(rank * group_size() + instance);
  }
  int InstanceIDtoGroupRank(int id) { return IDtoRank(id) / group_size(); }

  // ---- what upstream's van calls: barriers and signs of life are the library's own

  void Manage(const Message&) {
    LOG(FATAL) << "messages between nodes do not come here: pslite handles them itself";
  }
  void UpdateHeartbeat(int, time_t) {}

  // For the headers beside this one.
  pslite_node* node() { return node_; }

  Postoffice(const Postoffice&) = delete;
  Postoffice& operator=(const Postoffice&) = delete;

 private:
  friend class Van;

  // What applications get references to. Nothing in here ever changes or goes away.
  struct Lists {
    std::vector<Range> ranges;
    std::map<int, std::vector<int>> groups;
  };

  // All postoffices of the process.
  struct Offices {
    std::mutex mutex;
    Postoffice* main = nullptr;
    bool is_by_role = false;
    Postoffice* scheduler = nullptr;
    std::vector<Postoffice*> workers;
    std::vector<Postoffice*> servers;
    std::vector<Postoffice*> all;
  };

  Postoffice() : van_(this), process_(getpid()) {
    jobs_.emplace_back();
    abi::check(pslite_node_new(setting, this, &node_), "ps::Postoffice");
    abi::check(pslite_on_failure(node_, failed, this), "ps::Postoffice");
  }
  // Never called: the end of the process stops the nodes, but other threads may still be in here.
  ~Postoffice() {}

  static Offices& offices() {
    // In this order: the nodes are stopped before what the application made earlier goes away.
    static Offices& one = *make_offices();
    static const AtExit at_exit = {&one};
    (void)at_exit;
    return one;
  }
  static Offices* make_offices() {
    Offices* all = new Offices();
    all->main = new Postoffice();
    all->all.push_back(all->main);
    // For code in this process that knows the C ABI alone.
    pslite_set_process_node(all->main->node_);
    return all;
  }
  struct AtExit {
    Offices* offices;
    ~AtExit() {
      for (Postoffice* office : offices->all) {
        // A fork has none of the node's threads: ending them there would wait for ever.
        if (office->process_ == getpid()) pslite_node_stop(office->node_);
      }
    }
  };

  static Postoffice* of_role(const std::vector<Postoffice*>& some, int index, const char* role) {
    Offices& all = offices();
    if (!all.is_by_role && index == 0) return all.main;
    CHECK(index >= 0 && static_cast<size_t>(index) < some.size())
        << "this process has no " << role << " " << index << "; call ps::StartPS() first";
    return some[static_cast<size_t>(index)];
  }

  static const char* setting(void* self, const char* name) noexcept {
    return static_cast<Postoffice*>(self)->look_up(name);
  }
  static void failed(void* self, const char* reason) noexcept {
    static_cast<Postoffice*>(self)->van_.tell_failure(PSLITE_PEER_LOST, reason);
  }

  const char* look_up(const char* name) const {
    const int role = role_;
    if (role >= 0 && std::strcmp(name, "DMLC_ROLE") == 0) return name_of(role);
    return Environment::Get()->find(name);
  }
  static const char* name_of(int role) {
    return role == Node::SERVER ? "server" : role == Node::WORKER ? "worker" : "scheduler";
  }
  void set_role(int role) {
    role_ = role;
    abi::check(pslite_node_set_role(node_, role), "ps::Postoffice");
  }
  void set_group_size(int size) {
    group_size_ = size;
    abi::check(pslite_node_set_group_size(node_, size), "ps::Postoffice");
  }

  void start(int customer_id, const char* argv0, bool do_barrier);
  void refuse_second_kvstore(int customer_id, const char* argv0) const;
  // True if what does not change in a job is known.
  bool has_learned() const {
    if (is_started_) return true;
    pslite_node_info info;
    if (pslite_node_describe(node_, &info) != PSLITE_OK || !info.is_ready) return false;
    std::lock_guard<std::mutex> lock(mutex_);
    if (!is_started_) learn(info);
    return true;
  }
  void learn(const pslite_node_info& info) const;
  void forget();
  int count(int32_t pslite_node_info::*field, const std::atomic<int>& known) const {
    if (is_started_) return known;
    pslite_node_info info;
    return pslite_node_describe(node_, &info) == PSLITE_OK ? info.*field : 0;
  }

  pslite_node* node_ = nullptr;
  Van van_;
  const pid_t process_;
  mutable std::mutex mutex_;
  std::map<std::pair<int, int>, Customer*> customers_;
  // The lists of every job that this node was in; the last is the present one's.
  mutable std::list<Lists> jobs_;
  // GetServerKeyRanges is called for each row of a sparse array, from several threads.
  mutable std::atomic<const std::vector<Range>*> ranges_{nullptr};
  Callback exit_callback_;
  // As Node::Role; -1: as DMLC_ROLE says.
  std::atomic<int> role_{-1};
  std::atomic<int> preferred_rank_{-1};
  std::atomic<int> group_size_{1};
  // Learned when it is first asked for: handles may ask before Start has returned.
  mutable std::atomic<bool> is_started_{false};
  mutable std::atomic<int> known_workers_{0};
  mutable std::atomic<int> known_servers_{0};
  mutable std::atomic<int> known_verbose_{-1};
  // Of each job one: references to it stay valid.
  mutable std::list<Node> nodes_;
  mutable std::atomic<const Node*> my_node_{nullptr};
};

#define PS_VLOG(x) LOG_IF(INFO, x <= ::ps::Postoffice::Get()->verbose())

}  // namespace ps

#include "ps/internal/postoffice_inline.h"

#endif  // PS_INTERNAL_POSTOFFICE_H_
