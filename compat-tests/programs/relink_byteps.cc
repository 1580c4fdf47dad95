// The patterns of BytePS through ps/ps.h: its two ways to start, a server that acknowledges pushes
// at once and answers pulls from a thread of its own when all workers have pushed, one key in a
// request, lens, larger arrays for pulls, buffers that were registered, and a second life with
// other counts.
//
//   relink_byteps old|new     StartAsync and Finalize(id, bool), or StartPS and Finalize(id, role,
//                             bool)
//   relink_byteps joint       each process is a server and a worker
//   relink_byteps group       each process has DMLC_GROUP_SIZE nodes of its role, and the rank
//                             RELINK_RANK
#include <ps/ps.h>

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "relink.h"

namespace {

const int kRounds = 30;
const int kKeys = 12;

bool is_old = false;

ps::Node::Role my_role() { return ps::GetRole(ps::Environment::Get()->find("DMLC_ROLE")); }

// The bytes of a key's values: small ones, and some that are received where they belong.
size_t bytes_of(uint64_t key) { return (key % 4 == 3 ? 60000 : key + 1) * sizeof(int32_t); }

// ---- server

class Server {
 public:
  explicit Server(int instance)
      : instance_(instance),
        app_(is_old ? new ps::KVServer<char>(0) : new ps::KVServer<char>(0, false, instance)),
        thread_([this] { answer(); }) {
    app_->set_request_handle([this](const ps::KVMeta& meta, const ps::KVPairs<char>& data,
                                    ps::KVServer<char>* app) { handle(meta, data, app); });
  }

  void stop() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
    app_.reset();
  }

 private:
  struct Value {
    std::vector<ps::KVMeta> waiting;  // first pushes, then pulls
    std::set<int> made_by;
    int pushed = 0;
    std::vector<int32_t> sum;
    // The sum of the last round that is complete. The next one is not complete before all have
    // pulled this one.
    ps::KVPairs<char> answer;
    int rounds = 0;
    std::map<int, int> pulled;
    // One that was registered for each worker.
    std::map<int, std::vector<char>> buffers;
  };

  void handle(const ps::KVMeta& meta, const ps::KVPairs<char>& data, ps::KVServer<char>* app) {
    require_equal(data.keys.size(), static_cast<size_t>(1), "keys");
    require(meta.key == data.keys[0], "the key in the metadata");
    require_equal(meta.cmd, 4, "the command");
    require_equal(app->instance_idx_, instance_, "the instance");
    ps::Postoffice* const office = ps::Postoffice::GetServer(instance_);
    const int rank = office->my_rank() / office->group_size();
    require(office->my_rank() % office->group_size() == instance_,
            "instances have ranks that follow each other");
    const uint64_t key =
        data.keys[0] - office->GetServerKeyRanges()[static_cast<size_t>(rank)].begin();
    std::lock_guard<std::mutex> lock(mutex_);
    Value& value = values_[key];
    const int workers = ps::NumWorkers();
    if (!meta.push) {
      value.waiting.push_back(meta);
      changed_.notify_all();
      return;
    }
    require(data.lens.size() == 1 && static_cast<size_t>(data.lens[0]) == data.vals.size(),
            "the length of a push");
    require_equal(data.vals.size(), bytes_of(key), "bytes of a push");
    if (static_cast<int>(value.made_by.size()) < workers) {
      require(value.made_by.insert(meta.sender).second, "one first push of each worker");
      value.waiting.push_back(meta);
      std::vector<char>& buffer = value.buffers[meta.sender];
      buffer.resize(data.vals.size());
      ps::SArray<ps::Key> keys(data.keys);
      const ps::SArray<char> registered(buffer.data(), buffer.size(), false);
      if (key % 2 == 0) {
        app->RegisterRecvBufferWithRank(ps::Postoffice::IDtoRank(meta.sender), keys, registered,
                                        data.lens);
      } else {
        app->RegisterRecvBuffer(meta.sender, keys, registered);
      }
      if (static_cast<int>(value.made_by.size()) < workers) return;
      for (const ps::KVMeta& each : value.waiting) app->Response(each);
      value.waiting.clear();
      return;
    }
    require(data.vals.data() == value.buffers[meta.sender].data(),
            "values are in the buffer that was registered");
    if (value.pushed == 0) value.sum.assign(data.vals.size() / sizeof(int32_t), 0);
    const int32_t* numbers = reinterpret_cast<const int32_t*>(data.vals.data());
    for (size_t i = 0; i < value.sum.size(); ++i) value.sum[i] += numbers[i];
    ++value.pushed;
    app->Response(meta);
    if (value.pushed < workers) return;
    value.pushed = 0;
    ++value.rounds;
    // What was answered before may still be on its way: other memory.
    value.answer = ps::KVPairs<char>();
    value.answer.keys = data.keys;
    value.answer.vals.CopyFrom(reinterpret_cast<char*>(value.sum.data()), data.vals.size());
    value.answer.lens = {static_cast<int>(data.vals.size())};
    changed_.notify_all();
  }

  // Pulls of rounds that are complete.
  void answer() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!over_) {
      for (auto& each : values_) {
        Value& value = each.second;
        if (static_cast<int>(value.made_by.size()) < ps::NumWorkers()) continue;
        std::vector<ps::KVMeta> pulls;
        pulls.swap(value.waiting);
        for (const ps::KVMeta& pull : pulls) {
          int& pulled = value.pulled[pull.sender];
          if (pulled == value.rounds) {
            value.waiting.push_back(pull);
            continue;
          }
          pulled = value.rounds;
          app_->Response(pull, value.answer);
        }
      }
      changed_.wait(lock);
    }
  }

  const int instance_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::map<uint64_t, Value> values_;
  std::unique_ptr<ps::KVServer<char>> app_;
  std::thread thread_;
};

// ---- worker

class Worker {
 public:
  explicit Worker(int instance)
      : instance_(instance),
        app_(is_old ? new ps::KVWorker<char>(0, 0) : new ps::KVWorker<char>(0, 0, instance)) {}

  void run() {
    ps::Postoffice* const office = ps::Postoffice::GetWorker(instance_);
    const std::vector<ps::Range>& ranges = office->GetServerKeyRanges();
    rank_ = office->my_rank() / office->group_size();
    require_equal(static_cast<int>(ranges.size()), office->num_servers(),
                  "ranges are those of processes");
    workers_ = office->num_workers();
    require(!app_->is_worker_zpull_, "no van writes into arrays by itself");
    for (uint64_t i = 0; i < kKeys; ++i) {
      keys_.push_back(ps::SArray<ps::Key>({ranges[i % ranges.size()].begin() + i}));
      lens_.push_back(ps::SArray<int>({static_cast<int>(bytes_of(i))}));
      memory_.push_back(std::vector<int32_t>(bytes_of(i) / sizeof(int32_t) + 100));
      app_->Wait(push(i, nullptr));
    }
    for (int round = 1; round <= kRounds; ++round) one_round(round);
  }

  void stop() { app_.reset(); }

 private:
  int push(uint64_t key, const std::function<void()>& done) {
    const ps::SArray<char> vals(reinterpret_cast<char*>(memory_[key].data()), bytes_of(key), false);
    return app_->ZPush(keys_[key], vals, lens_[key], 4, done);
  }

  // The values are pulled into the memory that they were pushed from, which is a bit larger.
  void pull(uint64_t key) {
    auto* vals = new ps::SArray<char>(reinterpret_cast<char*>(memory_[key].data()),
                                      memory_[key].size() * sizeof(int32_t), false);
    auto* lens = new ps::SArray<int>(1);
    app_->ZPull(keys_[key], vals, lens, 4, [this, key, vals, lens] {
      require_equal((*lens)[0], bytes_of(key), "the length of what was pulled");
      delete vals;
      delete lens;
      std::lock_guard<std::mutex> lock(mutex_);
      ++done_;
      changed_.notify_all();
    });
  }

  static int32_t pushed(int rank, int round, uint64_t key, size_t i) {
    return static_cast<int32_t>((rank + 1) * (round * 100 + static_cast<int>(key)) +
                                static_cast<int>(i % 10));
  }

  void one_round(int round) {
    for (uint64_t key = 0; key < kKeys; ++key) {
      const size_t count = bytes_of(key) / sizeof(int32_t);
      for (size_t i = 0; i < count; ++i) memory_[key][i] = pushed(rank_, round, key, i);
      std::fill(memory_[key].begin() + static_cast<std::ptrdiff_t>(count), memory_[key].end(), -5);
      // The pull is asked for by the callback of the push.
      push(key, [this, key] { pull(key); });
    }
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this, round] { return done_ == round * kKeys; });
    for (uint64_t key = 0; key < kKeys; ++key) {
      const size_t count = bytes_of(key) / sizeof(int32_t);
      for (size_t i = 0; i < memory_[key].size(); ++i) {
        int32_t wanted = -5;
        if (i < count) {
          wanted = 0;
          for (int rank = 0; rank < workers_; ++rank) wanted += pushed(rank, round, key, i);
        }
        if (memory_[key][i] != wanted)
          require_equal(memory_[key][i], wanted, "a sum in round " + std::to_string(round));
      }
    }
  }

  const int instance_;
  std::unique_ptr<ps::KVWorker<char>> app_;
  int rank_ = 0;
  int workers_ = 0;
  std::vector<ps::SArray<ps::Key>> keys_;
  std::vector<ps::SArray<int>> lens_;
  std::vector<std::vector<int32_t>> memory_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int done_ = 0;
};

// ---- a life

// As BytePS 0.2.5: apps are made before the node starts.
void live_as_old() {
  const ps::Node::Role role = my_role();
  std::unique_ptr<Server> server(role == ps::Node::SERVER ? new Server(0) : nullptr);
  std::unique_ptr<Worker> worker(role == ps::Node::WORKER ? new Worker(0) : nullptr);
  ps::StartAsync(0, "byteps\0");
  if (!ps::Postoffice::Get()->is_recovery()) {
    ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup + ps::kServerGroup + ps::kScheduler);
  }
  if (worker) {
    worker->run();
    ps::Postoffice::GetWorker()->Barrier(0, ps::kWorkerGroup);
  }
  ps::Finalize(0, true);
  if (server) server->stop();
  if (worker) worker->stop();
}

// As later ones: the role is said to StartPS, whatever the environment says, and apps are made
// then.
void live_as_new(ps::Node::Role role) {
  const int group = ps::GetEnv("DMLC_GROUP_SIZE", 1);
  const int rank = ps::GetEnv("RELINK_RANK", -1);
  setenv("DMLC_ROLE", "worker", 1);
  ps::StartPS(0, role, rank, true, "byteps\0");
  ps::Postoffice* const office = ps::Postoffice::Get();
  require(ps::IsScheduler() == (role == ps::Node::SCHEDULER), "the role that was said");
  if (rank >= 0 && role != ps::Node::SCHEDULER)
    require_equal(ps::MyRank(), rank, "the rank that was wished for");
  require_equal(office->group_size(), group, "nodes of each process");
  require(ps::NumWorkers() == setting("DMLC_NUM_WORKER") &&
              ps::NumServers() == setting("DMLC_NUM_SERVER"),
          "counts are those of processes");
  require_equal(office->num_worker_instances(), group * ps::NumWorkers(), "instances");
  require_equal(office->num_server_instances(), group * ps::NumServers(), "instances");
  require_equal(office->GetNodeIDs(ps::kWorkerGroup).size(),
                static_cast<size_t>(office->num_worker_instances()), "ids");
  if (role != ps::Node::SCHEDULER) {
    const int wished = rank < 0 ? -1 : rank * group;
    require(office->preferred_rank() == wished && office->van()->my_node().aux_id == wished,
            "the wish for a rank");
  }
  require_equal(office->GroupWorkerRankToInstanceID(1, 0), 9 + 2 * group, "an id");
  require_equal(office->GroupServerRankToInstanceID(1, 0), 8 + 2 * group, "an id");
  require_equal(office->InstanceIDtoGroupRank(9 + 2 * group), 1, "a rank");
  require((ps::Postoffice::GetScheduler() != nullptr) == (role == ps::Node::SCHEDULER),
          "GetScheduler");
  std::vector<std::unique_ptr<Server>> servers;
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<std::thread> threads;
  for (int i = 0; i < group; ++i) {
    if (role == ps::Node::SERVER || role == ps::Node::JOINT) servers.emplace_back(new Server(i));
    if (role == ps::Node::WORKER || role == ps::Node::JOINT) workers.emplace_back(new Worker(i));
  }
  for (std::unique_ptr<Worker>& worker : workers)
    threads.emplace_back([&worker] { worker->run(); });
  for (std::thread& thread : threads) thread.join();
  // One of the process, for all of it.
  std::thread other;
  if (role == ps::Node::JOINT)
    other = std::thread([] { ps::Postoffice::GetWorker()->Barrier(0, 7); });
  office->Barrier(0, ps::kWorkerGroup + ps::kServerGroup + ps::kScheduler);
  if (other.joinable()) other.join();
  ps::Finalize(0, role, true);
  for (std::unique_ptr<Server>& server : servers) server->stop();
  for (std::unique_ptr<Worker>& worker : workers) worker->stop();
}

void errors() {
  require_text(thrown_by([] { ps::GetRole("king"); }, "a role that does not exist"),
               "Unexpected role", "GetRole");
  if (my_role() == ps::Node::WORKER) {
    require_text(thrown_by([] { ps::Postoffice::GetServer(1); }, "a server that does not exist"),
                 "no server 1", "GetServer");
  }
  ps::Van* const van = ps::Postoffice::Get()->van();
  int told = 0;
  ps::Van::set_err_handle([&](void* from, ps::ErrorCode code, const std::string& text) {
    require(from == van && code == ps::PS_ERR_CONNECTION_RESET && text == "somebody is gone",
            "what is told");
    ++told;
  });
  van->tell_failure(PSLITE_PEER_LOST, "somebody is gone");
  ps::Van::set_err_handle(nullptr);
  van->tell_failure(PSLITE_PEER_LOST, "somebody is gone");
  require_equal(told, 1, "failures that were told");
  van->PinMemory(&told, sizeof told, false);
  thrown_by([&] { van->PinMemory(&told, sizeof told, true); }, "memory of a GPU");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "new";
  is_old = mode == "old";
  const ps::Node::Role role =
      mode == "joint" && my_role() != ps::Node::SCHEDULER ? ps::Node::JOINT : my_role();
  errors();
  // Suspended and resumed: all end, and start again in the same processes, at another port.
  for (int life = 0; life < 2; ++life) {
    if (life == 1) {
      setenv("DMLC_PS_ROOT_PORT", std::getenv("RELINK_PORT"), 1);
    }
    if (is_old) {
      live_as_old();
    } else {
      live_as_new(role);
    }
  }
  return all_is_right();
}
