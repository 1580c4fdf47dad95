// ps/ps.h: all of the interface: upstream ps-lite's, and what BytePS's adds to it.
//
// It is a layer over pslite.h and has no code of its own to link: a program needs libps.a or
// libps.so.
#ifndef PS_PS_H_
#define PS_PS_H_

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "ps/base.h"
#include "ps/internal/postoffice.h"
#include "ps/kv_app.h"
#include "ps/simple_app.h"

namespace ps {

// ---- what this node is

inline int NumWorkers() { return Postoffice::Get()->num_workers(); }
inline int NumServers() { return Postoffice::Get()->num_servers(); }
inline bool IsWorker() { return Postoffice::Get()->is_worker(); }
inline bool IsServer() { return Postoffice::Get()->is_server(); }
inline bool IsScheduler() { return Postoffice::Get()->is_scheduler(); }
// Among the nodes of its role. Throws dmlc::Error before Start.
inline int MyRank() { return Postoffice::Get()->my_rank() / Postoffice::Get()->group_size(); }

// ---- the life of a node, as upstream

// Joins the job as DMLC_ROLE says, and waits for all others. Throws dmlc::Error.
inline void Start(int customer_id, const char* argv0 = nullptr) {
  Postoffice::Get()->Start(customer_id, argv0, true);
}
// The same, but waits only until the job is complete.
inline void StartAsync(int customer_id, const char* argv0 = nullptr) {
  Postoffice::Get()->Start(customer_id, argv0, false);
}
// Leaves the job; with do_barrier when all leave it. Start may follow.
inline void Finalize(int customer_id, const bool do_barrier = true) {
  Postoffice::Get()->Finalize(customer_id, do_barrier);
}
// Called at the end of Finalize. One for each process.
inline void RegisterExitCallback(const std::function<void()>& cb) {
  Postoffice::Get()->RegisterExitCallback(cb);
}

// ---- the same, as BytePS: the caller says the role

inline Node::Role GetRole(const std::string role_str) {
  if (role_str == "worker") return Node::WORKER;
  if (role_str == "server") return Node::SERVER;
  if (role_str == "scheduler") return Node::SCHEDULER;
  CHECK(role_str == "joint") << "Unexpected role: " << role_str;
  return Node::JOINT;
}

namespace abi {

// Runs all of them at once, and throws what the first one that failed has thrown.
inline void together(const std::vector<std::function<void()>>& some) {
  std::vector<std::exception_ptr> errors(some.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < some.size(); ++i) {
    threads.emplace_back([&some, &errors, i] {
      try {
        some[i]();
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace abi

// One instance of each role that the role names. rank: the one it wishes for, or -1.
inline void _StartPS(int customer_id, Node::Role role, int rank, bool do_barrier, const char* argv0,
                     int instance_idx) {
  const auto start = [=](Postoffice* postoffice, Node::Role as) {
    postoffice->Start(customer_id, as, rank, do_barrier, argv0);
  };
  if (role == Node::SCHEDULER) return start(Postoffice::GetScheduler(), role);
  if (role == Node::SERVER) return start(Postoffice::GetServer(instance_idx), role);
  if (role == Node::WORKER) return start(Postoffice::GetWorker(instance_idx), role);
  abi::together({[&] { start(Postoffice::GetServer(instance_idx), Node::SERVER); },
                 [&] { start(Postoffice::GetWorker(instance_idx), Node::WORKER); }});
}

// All instances of this process, each with the rank that the lists say; an empty list: none of that
// role.
inline void _StartPSGroup(int customer_id, std::vector<int> worker_ranks,
                          std::vector<int> server_ranks, bool do_barrier, const char* argv0) {
  std::vector<std::function<void()>> starts;
  for (size_t i = 0; i < server_ranks.size(); ++i) {
    starts.push_back([=] {
      Postoffice::GetServer(static_cast<int>(i))
          ->Start(customer_id, Node::SERVER, server_ranks[i], do_barrier, argv0);
    });
  }
  for (size_t i = 0; i < worker_ranks.size(); ++i) {
    starts.push_back([=] {
      Postoffice::GetWorker(static_cast<int>(i))
          ->Start(customer_id, Node::WORKER, worker_ranks[i], do_barrier, argv0);
    });
  }
  abi::together(starts);
}

// Joins the job in the given role, whatever DMLC_ROLE says; JOINT: as a server and as a worker.
// rank: the one that the process wishes for, or -1; with DMLC_GROUP_SIZE over 1 it must be said.
inline void StartPS(int customer_id, Node::Role role, int rank, bool do_barrier,
                    const char* argv0 = nullptr) {
  Postoffice::Init(role);
  const int group = Postoffice::Get()->group_size();
  if (group == 1 || role == Node::SCHEDULER)
    return _StartPS(customer_id, role, rank, do_barrier, argv0, 0);
  CHECK_GE(rank, 0) << "with DMLC_GROUP_SIZE=" << group << " a rank must be said";
  std::vector<int> ranks;
  for (int i = 0; i < group; ++i) ranks.push_back(rank * group + i);
  const std::vector<int> none;
  _StartPSGroup(customer_id, role == Node::SERVER ? none : ranks,
                role == Node::WORKER ? none : ranks, do_barrier, argv0);
}

inline void _Finalize(int customer_id, Node::Role role, bool do_barrier, int index) {
  if (role == Node::SCHEDULER) return Postoffice::GetScheduler()->Finalize(customer_id, do_barrier);
  if (role == Node::SERVER) return Postoffice::GetServer(index)->Finalize(customer_id, do_barrier);
  if (role == Node::WORKER) return Postoffice::GetWorker(index)->Finalize(customer_id, do_barrier);
  abi::together({[=] { Postoffice::GetServer(index)->Finalize(customer_id, do_barrier); },
                 [=] { Postoffice::GetWorker(index)->Finalize(customer_id, do_barrier); }});
}

inline void _FinalizeGroup(int customer_id, Node::Role role, int group_size, bool do_barrier) {
  std::vector<std::function<void()>> ends;
  for (int i = 0; i < group_size; ++i) {
    if (role != Node::WORKER)
      ends.push_back([=] { _Finalize(customer_id, Node::SERVER, do_barrier, i); });
    if (role != Node::SERVER)
      ends.push_back([=] { _Finalize(customer_id, Node::WORKER, do_barrier, i); });
  }
  abi::together(ends);
}

inline void Finalize(int customer_id, const Node::Role role, const bool do_barrier = true) {
  const int group = Postoffice::Get()->group_size();
  if (group == 1 || role == Node::SCHEDULER) return _Finalize(customer_id, role, do_barrier, 0);
  _FinalizeGroup(customer_id, role, group, do_barrier);
}

}  // namespace ps

#endif  // PS_PS_H_
