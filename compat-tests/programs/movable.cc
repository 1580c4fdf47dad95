// A server application with a handler of its own, and its workers, on the C ABI (include/pslite.h).
// C++11.
//
//   movable sums|rounds ROUNDS PACE_MS KEYS
//
// sums: the server adds every push to its value, and answers it when all workers have pushed. It
// keeps that value, so its keys move by being exported and imported. A thread of its own answers.
// rounds: as BytePS. The first push of each worker makes the key; then pushes are answered at once,
// and pulls when all have pushed, with the sum of that round. Nothing is kept between rounds. With
// PSLITE_SERVER_STATELESS set the server does not tell the library so.
//
// Workers check every value that they pull, and print "round N" and in the end "all sums are
// right".

#include <pslite.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

typedef std::vector<int64_t> Values;

void check(int status, const char* what) {
  if (status != PSLITE_OK) {
    std::fprintf(stderr, "%s: %s\n", what, pslite_last_error());
    std::exit(1);
  }
}

void require(bool is_so, const std::string& what) {
  if (!is_so) {
    std::fprintf(stderr, "wrong: %s\n", what.c_str());
    std::fflush(nullptr);
    std::_Exit(2);
  }
}

bool sums = false;
int rounds = 0;
int pace_ms = 0;
int num_keys = 0;

pslite_buffer lend(const void* data, size_t size) {
  return pslite_buffer{data, size, nullptr, nullptr};
}

// ---- server -------------------------------------------------------------------------------------

struct Key {
  Values value;                      // sums: of all pushes. rounds: of the open round.
  std::vector<pslite_meta> waiting;  // pushes of the open round, pulls of one that is open
  std::set<int32_t> made_by, pushed_by;
  Values sum;  // rounds: of the last round
  int64_t over = 0;
  std::map<int32_t, int64_t> fetched;  // rounds that a worker has pulled
};

struct Reply {
  pslite_meta request;
  pslite_key key;
  Values values;
};

class Server {
 public:
  Server() : sender_([this] { send(); }) {}

  ~Server() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    sender_.join();
  }

  void attach(pslite_customer* customer, int workers) {
    customer_ = customer;
    workers_ = workers;
    pslite_movable handlers;
    std::memset(&handlers, 0, sizeof handlers);
    handlers.size = sizeof handlers;
    handlers.user = this;
    handlers.stateless = !sums;
    handlers.export_key = [](void* user, pslite_key key, pslite_write_fn write, void* arg) {
      return static_cast<Server*>(user)->give(key, write, arg);
    };
    handlers.import_key = [](void* user, pslite_key key, const void* data, size_t size) {
      return static_cast<Server*>(user)->take(key, data, size);
    };
    handlers.forget_key = [](void* user, pslite_key key) {
      static_cast<Server*>(user)->forget(key);
    };
    handlers.released = [](void*) { std::puts("released"); };
    if (std::getenv("PSLITE_SERVER_STATELESS")) {
      check(pslite_server_attach(customer), "pslite_server_attach");
    } else {
      pslite_movable wrong = handlers;
      wrong.size = 1;
      require(pslite_server_attach_movable(customer, &wrong) == PSLITE_INVALID_ARGUMENT,
              "a struct without a size");
      check(pslite_server_attach_movable(customer, &handlers), "pslite_server_attach_movable");
    }
  }

  void receive(const pslite_message* message) {
    pslite_meta meta;
    pslite_message_meta(message, &meta);
    if (!meta.request || meta.simple_app) return;
    meta.body = nullptr;
    meta.error = nullptr;
    pslite_key key = 0;
    const pslite_slice keys = pslite_message_frame(message, 0);
    require(keys.size == sizeof key, "one key");
    std::memcpy(&key, keys.data, sizeof key);
    const pslite_slice vals = pslite_message_frame(message, 1);
    Values values(vals.size / sizeof(int64_t));
    if (!values.empty()) std::memcpy(values.data(), vals.data, vals.size);
    std::lock_guard<std::mutex> lock(mutex_);
    Key& own = keys_[key];
    if (sums) {
      serve_sums(key, own, meta, values);
    } else {
      serve_rounds(key, own, meta, values);
    }
    changed_.notify_all();
  }

 private:
  static void add(Values& to, const Values& values) {
    to.resize(values.size());
    for (size_t i = 0; i < values.size(); ++i) to[i] += values[i];
  }

  void serve_sums(pslite_key key, Key& own, const pslite_meta& meta, const Values& values) {
    if (!meta.push) {
      require(!own.value.empty(), "a pull of a key that is here");
      replies_.push_back(Reply{meta, key, own.value});
      return;
    }
    require(own.pushed_by.insert(meta.sender).second, "one push of each worker in a round");
    add(own.value, values);
    own.waiting.push_back(meta);
    if (static_cast<int>(own.waiting.size()) < workers_) return;
    for (const pslite_meta& push : own.waiting) replies_.push_back(Reply{push, key, Values()});
    own.waiting.clear();
    own.pushed_by.clear();
  }

  void serve_rounds(pslite_key key, Key& own, const pslite_meta& meta, const Values& values) {
    if (meta.push && static_cast<int>(own.made_by.size()) < workers_) {
      require(own.made_by.insert(meta.sender).second, "one first push of each worker");
      own.waiting.push_back(meta);
      if (static_cast<int>(own.made_by.size()) < workers_) return;
      for (const pslite_meta& push : own.waiting) replies_.push_back(Reply{push, key, Values()});
      own.waiting.clear();
      return;
    }
    require(static_cast<int>(own.made_by.size()) == workers_, "a key that was made");
    if (meta.push) {
      require(own.pushed_by.insert(meta.sender).second, "one push of each worker in a round");
      add(own.value, values);
      replies_.push_back(Reply{meta, key, Values()});
    } else {
      own.waiting.push_back(meta);
    }
    if (static_cast<int>(own.pushed_by.size()) == workers_) {
      own.pushed_by.clear();
      own.over += 1;
      own.sum.swap(own.value);
      own.value.clear();
    }
    std::vector<pslite_meta> pulls;
    pulls.swap(own.waiting);
    for (const pslite_meta& pull : pulls) {
      int64_t& fetched = own.fetched[pull.sender];
      if (fetched < own.over) {
        fetched += 1;
        replies_.push_back(Reply{pull, key, own.sum});
      } else {
        own.waiting.push_back(pull);
      }
    }
  }

  int give(pslite_key key, pslite_write_fn write, void* arg) {
    std::lock_guard<std::mutex> lock(mutex_);
    const Key& own = keys_[key];
    require(own.waiting.empty() && own.pushed_by.empty(), "nothing is under way");
    for (const Reply& reply : replies_) require(reply.key != key, "all is answered");
    for (const int64_t value : own.value) write(arg, &value, sizeof value);  // In many parts.
    return 0;
  }

  int take(pslite_key key, const void* data, size_t size) {
    std::lock_guard<std::mutex> lock(mutex_);
    require(keys_.count(key) == 0, "a key that comes is not here");
    Values& value = keys_[key].value;
    value.resize(size / sizeof(int64_t));
    std::memcpy(value.data(), data, size);
    std::puts("imported");
    std::fflush(stdout);
    return 0;
  }

  void forget(pslite_key key) {
    std::lock_guard<std::mutex> lock(mutex_);
    require(keys_.erase(key) == 1, "a key that goes was here");
  }

  // Answers, on a thread of its own.
  void send() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return over_ || !replies_.empty(); });
      if (replies_.empty()) return;
      // It stays in the queue until it is sent: whoever exports a key meanwhile shall find that.
      const Reply reply = replies_.front();
      lock.unlock();
      pslite_kv kv;
      std::memset(&kv, 0, sizeof kv);
      const bool has_values = !reply.values.empty();
      const int32_t len = static_cast<int32_t>(reply.values.size());
      if (has_values) {
        Values* values = new Values(reply.values);
        kv.keys = lend(&reply.key, sizeof reply.key);
        kv.vals = pslite_buffer{values->data(), values->size() * sizeof(int64_t),
                                [](void* arg) { delete static_cast<Values*>(arg); }, values};
        kv.lens = lend(&len, sizeof len);
      }
      lock.lock();
      replies_.pop_front();
      lock.unlock();
      const int status =
          pslite_server_respond(customer_, &reply.request, has_values ? &kv : nullptr);
      if (status != PSLITE_OK && status != PSLITE_NOT_STARTED)
        check(status, "pslite_server_respond");
      lock.lock();
    }
  }

  pslite_customer* customer_ = nullptr;
  int workers_ = 0;
  std::map<pslite_key, Key> keys_;
  std::deque<Reply> replies_;
  bool over_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread sender_;
};

void serve(pslite_node* node) {
  Server server;
  pslite_customer* customer = nullptr;
  const pslite_receive_fn receive = [](void* arg, const pslite_message* message) {
    static_cast<Server*>(arg)->receive(message);
  };
  check(pslite_customer_new(node, 0, 0, receive, &server, &customer), "pslite_customer_new");
  server.attach(customer, std::atoi(std::getenv("DMLC_NUM_WORKER")));
  check(pslite_start(node, 0, 1), "pslite_start");
  check(pslite_finalize(node, 0, 1), "pslite_finalize");
  pslite_customer_free(customer);
}

// ---- worker -------------------------------------------------------------------------------------

struct Destination {
  Values values;
};

void* place(void* arg, size_t bytes) {
  Values& values = static_cast<Destination*>(arg)->values;
  return bytes == values.size() * sizeof(int64_t) ? values.data() : nullptr;
}

class Worker {
 public:
  Worker(pslite_node* node, pslite_customer* customer) : customer_(customer) {
    pslite_node_info info;
    check(pslite_node_describe(node, &info), "pslite_node_describe");
    rank_ = info.rank;
    workers_ = info.num_workers;
    std::vector<pslite_range> ranges(static_cast<size_t>(info.num_servers));
    size_t count = 0;
    check(pslite_server_key_ranges(node, ranges.data(), ranges.size(), &count),
          "pslite_server_key_ranges");
    for (int i = 0; i < num_keys; ++i) {
      keys_.push_back(ranges[static_cast<size_t>(i) % count].begin + static_cast<uint64_t>(i));
      // One value in three is large enough to be lent, or to land in place.
      sizes_.push_back(i % 3 == 0 ? 20000 : 7 + static_cast<size_t>(i));
    }
  }

  static int64_t pushed(int rank, int round, size_t i) {
    const int64_t factor = rank == 0 ? 1 : 1000003;
    return factor * (round + static_cast<int64_t>(i % 5));
  }

  // What all have pushed in the rounds from `first` to `last`.
  int64_t sum(int first, int last, size_t i) const {
    int64_t sum = 0;
    for (int rank = 0; rank < workers_; ++rank) {
      for (int round = first; round <= last; ++round) sum += pushed(rank, round, i);
    }
    return sum;
  }

  void push_all(int round) {
    std::vector<Values> values;
    std::vector<int32_t> timestamps;
    for (size_t k = 0; k < keys_.size(); ++k) {
      values.push_back(Values(sizes_[k]));
      for (size_t i = 0; i < sizes_[k]; ++i) values.back()[i] = pushed(rank_, round, i);
      const int32_t len = static_cast<int32_t>(sizes_[k]);
      pslite_kv kv;
      kv.keys = lend(&keys_[k], sizeof keys_[k]);
      kv.vals = lend(values.back().data(), sizes_[k] * sizeof(int64_t));
      kv.lens = lend(&len, sizeof len);
      timestamps.push_back(0);
      check(pslite_worker_push(customer_, &kv, 0, 0, nullptr, nullptr, &timestamps.back()),
            "pslite_worker_push");
    }
    for (const int32_t timestamp : timestamps)
      check(pslite_customer_wait(customer_, timestamp), "push");
  }

  std::vector<Destination> pull_all() {
    std::vector<Destination> into(keys_.size());
    std::vector<int32_t> timestamps(keys_.size());
    for (size_t k = 0; k < keys_.size(); ++k) {
      into[k].values.resize(sizes_[k]);
      pslite_destination destination;
      std::memset(&destination, 0, sizeof destination);
      destination.place_vals = place;
      destination.arg = &into[k];
      destination.vals = into[k].values.data();
      destination.vals_bytes = sizes_[k] * sizeof(int64_t);
      check(pslite_worker_pull(customer_, lend(&keys_[k], sizeof keys_[k]), &destination, 0, 0,
                               nullptr, nullptr, &timestamps[k]),
            "pslite_worker_pull");
    }
    for (const int32_t timestamp : timestamps)
      check(pslite_customer_wait(customer_, timestamp), "pull");
    return into;
  }

  void compare(const std::vector<Destination>& pulled, int round, bool exactly) const {
    for (size_t k = 0; k < keys_.size(); ++k) {
      for (size_t i = 0; i < sizes_[k]; ++i) {
        const int64_t got = pulled[k].values[i];
        const int64_t all = sums ? sum(1, round, i) : sum(round, round, i);
        // Where sums are kept the other worker may have pushed for the next round already.
        const int64_t next = all + pushed(1 - rank_, round + 1, i);
        require(got == all || (sums && !exactly && got == next),
                "key " + std::to_string(k) + " at " + std::to_string(i) + " in round " +
                    std::to_string(round) + ": got " + std::to_string(got) + ", wanted " +
                    std::to_string(all));
      }
    }
  }

 private:
  pslite_customer* customer_;
  int rank_ = 0;
  int workers_ = 0;
  std::vector<pslite_key> keys_;
  std::vector<size_t> sizes_;
};

// An earlier last round may be written into the file "last", before any worker is there.
int last_round() {
  std::ifstream told("last");
  int last = 0;
  return told >> last ? std::min(last, rounds) : rounds;
}

void work(pslite_node* node) {
  pslite_customer* customer = nullptr;
  const pslite_receive_fn receive = [](void*, const pslite_message*) {};
  check(pslite_customer_new(node, 0, 0, receive, nullptr, &customer), "pslite_customer_new");
  check(pslite_worker_attach(customer, sizeof(int64_t)), "pslite_worker_attach");
  check(pslite_start(node, 0, 1), "pslite_start");
  {
    Worker worker(node, customer);
    if (!sums) worker.push_all(0);
    for (int round = 1; round <= (rounds = last_round()); ++round) {
      worker.push_all(round);
      worker.compare(worker.pull_all(), round, false);
      std::printf("round %d\n", round);
      std::fflush(stdout);
      std::this_thread::sleep_for(std::chrono::milliseconds(pace_ms));
    }
    check(pslite_barrier(node, 0, PSLITE_GROUP_WORKERS, 0), "pslite_barrier");
    if (sums) worker.compare(worker.pull_all(), rounds, true);
    std::puts("all sums are right");
  }
  check(pslite_finalize(node, 0, 1), "pslite_finalize");
  pslite_customer_free(customer);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 64;
  sums = std::string(argv[1]) == "sums";
  rounds = std::atoi(argv[2]);
  pace_ms = std::atoi(argv[3]);
  num_keys = std::atoi(argv[4]);
  pslite_node* node = nullptr;
  check(pslite_node_new(nullptr, nullptr, &node), "pslite_node_new");
  const std::string role = std::getenv("DMLC_ROLE");
  if (role == "server") {
    serve(node);
  } else {
    work(node);
  }
  pslite_node_free(node);
  return 0;
}
