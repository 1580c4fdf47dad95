// Rounds as BytePS has them: a server that answers pulls out of the memory that the next round's
// first push overwrites, and workers that check every value. C++11.
//
//   byteps ROUNDS KEYS ELEMENTS apart|tight
//
// Built twice: with -DSTOCK on the ps-lite of BytePS's source archive 0.2.5.post15 (its <ps/ps.h>),
// and without on the C ABI (<pslite.h>). The two make one job together.
//
// apart: workers meet after each round, as BytePS's server needs it. tight: they do not.
// Workers print in the end "all sums are right", or "N of M values are wrong" and end with 3.
//
// On the C ABI the environment says more:
//   START_BARRIER=1   start as StartPS does: with a barrier of all nodes
//   RANK=N            the rank that this process wants
//   GROUP=N           nodes of a role in a process, each on a thread
//   NEXT=W,S,PORT     after the job, the same process starts again, in one with W workers and S
//                     servers

#ifdef STOCK
#include <ps/ps.h>
#else
#include <pslite.h>
#endif

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

int rounds = 0;
int num_keys = 0;
int elements = 0;
bool tight = false;

void require(bool is_so, const std::string& what) {
  if (!is_so) {
    std::fprintf(stderr, "wrong: %s\n", what.c_str());
    std::fflush(nullptr);
    std::_Exit(2);
  }
}

int setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

// Keys differ in size; some values fit into one small message, some do not.
size_t size_of(uint64_t key) { return (1 + elements / (1 + key % 3)) * sizeof(int64_t); }

int64_t value_of(int rank, int round, uint64_t key) {
  return int64_t(rank + 1) * 1000003 * round + int64_t(key);
}

// ---- what both have to offer --------------------------------------------------------------------

// One node of a job. A request is what its server has to answer.
#ifdef STOCK

typedef ps::KVMeta Request;

class Node {
 public:
  typedef std::function<void(const Request&, uint64_t key, const char* data, size_t size)> Handler;

  explicit Node(int) {}
  static std::string role() { return std::getenv("DMLC_ROLE"); }

  void start(const Handler& handler) {
    if (role() == "worker") worker_ = new ps::KVWorker<char>(0, 0);
    if (role() == "server") {
      server_ = new ps::KVServer<char>(0);
      server_->set_request_handle([handler](const ps::KVMeta& meta, const ps::KVPairs<char>& data,
                                            ps::KVServer<char>*) {
        handler(meta, data.keys[0] - begin_of(ps::MyRank()), data.vals.data(), data.vals.size());
      });
    }
    ps::StartAsync(0, "byteps\0");
    barrier(7);
  }

  void finish() {
    ps::Finalize(0, true);
    delete worker_;
    delete server_;
  }

  void barrier(int group) { ps::Postoffice::Get()->Barrier(0, group); }
  int rank() { return ps::MyRank(); }
  int workers() { return ps::NumWorkers(); }
  int servers() { return ps::NumServers(); }

  int push(uint64_t key, const std::vector<int64_t>& values) {
    ps::SArray<char> vals(reinterpret_cast<char*>(const_cast<int64_t*>(values.data())),
                          values.size() * 8, false);
    return worker_->ZPush(keys_of(key), vals, lens_of(vals.size()), 0);
  }

  int pull(uint64_t key, std::vector<int64_t>* values) {
    // Until the pull has ended.
    into_[key] =
        ps::SArray<char>(reinterpret_cast<char*>(values->data()), values->size() * 8, false);
    lens_[key] = lens_of(values->size() * 8);
    return worker_->ZPull(keys_of(key), &into_[key], &lens_[key], 0);
  }

  void wait(int timestamp) { worker_->Wait(timestamp); }
  void command() { worker_->ps::SimpleApp::Wait(worker_->Request(5, "hello", ps::kServerGroup)); }

  void acknowledge(const Request& request) { server_->Response(request); }

  void answer(const Request& request, uint64_t key, const char* data, size_t size) {
    ps::KVPairs<char> kv;
    kv.keys = ps::SArray<ps::Key>{begin_of(ps::MyRank()) + key};
    kv.vals = ps::SArray<char>(const_cast<char*>(data), size, false);
    kv.lens = lens_of(size);
    server_->Response(request, kv);
  }

  static int sender(const Request& request) { return request.sender; }
  static bool is_push(const Request& request) { return request.push; }

 private:
  static uint64_t begin_of(int server) {
    return ps::Postoffice::Get()->GetServerKeyRanges()[server].begin();
  }
  ps::SArray<ps::Key> keys_of(uint64_t key) {
    return ps::SArray<ps::Key>{begin_of(int(key) % servers()) + key};
  }
  static ps::SArray<int> lens_of(size_t size) { return ps::SArray<int>{int(size)}; }

  ps::KVWorker<char>* worker_ = nullptr;
  ps::KVServer<char>* server_ = nullptr;
  std::map<uint64_t, ps::SArray<char>> into_;
  std::map<uint64_t, ps::SArray<int>> lens_;
};

#else

typedef pslite_meta Request;

void check(int status, const char* what) {
  if (status != PSLITE_OK) {
    std::fprintf(stderr, "%s: %s\n", what, pslite_last_error());
    std::fflush(nullptr);
    std::_Exit(1);
  }
}

class Node {
 public:
  typedef std::function<void(const Request&, uint64_t key, const char* data, size_t size)> Handler;

  explicit Node(int place) {
    check(pslite_node_new(nullptr, nullptr, &node_), "pslite_node_new");
    int group = setting("GROUP", 1), wish = setting("RANK", -1);
    check(pslite_node_set_group_size(node_, group), "pslite_node_set_group_size");
    if (wish >= 0) check(pslite_node_set_rank(node_, wish * group + place), "pslite_node_set_rank");
  }
  ~Node() { pslite_node_free(node_); }
  static std::string role() { return std::getenv("DMLC_ROLE"); }

  void start(const Handler& handler) {
    handler_ = handler;
    if (role() != "scheduler")
      check(pslite_customer_new(node_, 0, 0, receive, this, &customer_), "pslite_customer_new");
    if (role() == "worker") check(pslite_worker_attach(customer_, 1), "pslite_worker_attach");
    if (role() == "server") check(pslite_server_attach(customer_), "pslite_server_attach");
    check(pslite_start(node_, 0, setting("START_BARRIER", 0)), "pslite_start");
    check(pslite_node_describe(node_, &info_), "pslite_node_describe");
    check(pslite_node_group_size(node_, &group_), "pslite_node_group_size");
    ranges_.resize(size_t(info_.num_servers));
    size_t count = 0;
    check(pslite_server_key_ranges(node_, ranges_.data(), ranges_.size(), &count),
          "pslite_server_key_ranges");
    require(count == ranges_.size(), "as many ranges as servers");
    {
      std::lock_guard<std::mutex> lock(started_);
      is_started_ = true;
    }
    // One of each process.
    if (info_.rank % group_ == 0) barrier(7);
  }

  void finish() {
    check(pslite_finalize(node_, 0, 1), "pslite_finalize");
    if (customer_) pslite_customer_free(customer_);
    customer_ = nullptr;
  }

  void barrier(int group) { check(pslite_barrier(node_, 0, group, 0), "pslite_barrier"); }
  int rank() { return info_.rank; }
  // Those that push the same keys as this one.
  int workers() { return info_.num_workers; }
  int servers() { return info_.num_servers; }

  int push(uint64_t key, const std::vector<int64_t>& values) {
    uint64_t wire = ranges_[key % ranges_.size()].begin + key;
    int32_t len = int32_t(values.size() * 8);
    pslite_kv kv = {lend(&wire, 8), lend(values.data(), size_t(len)), lend(&len, 4)};
    int32_t timestamp = 0;
    check(pslite_worker_push(customer_, &kv, 0, 0, nullptr, nullptr, &timestamp),
          "pslite_worker_push");
    return timestamp;
  }

  int pull(uint64_t key, std::vector<int64_t>* values) {
    uint64_t wire = ranges_[key % ranges_.size()].begin + key;
    into_[key] = values;
    pslite_destination into = {place,   nullptr, &into_[key], values->data(), values->size() * 8,
                               nullptr, 0};
    int32_t timestamp = 0;
    check(pslite_worker_pull(customer_, lend(&wire, 8), &into, 0, 0, nullptr, nullptr, &timestamp),
          "pslite_worker_pull");
    return timestamp;
  }

  void wait(int timestamp) {
    check(pslite_customer_wait(customer_, timestamp), "pslite_customer_wait");
  }

  void command() {
    int32_t timestamp = 0;
    check(pslite_simple_request(customer_, 5, "hello", 5, PSLITE_GROUP_SERVERS, &timestamp),
          "pslite_simple_request");
    wait(timestamp);
  }

  void acknowledge(const Request& request) {
    check(pslite_server_respond(customer_, &request, nullptr), "pslite_server_respond");
  }

  void answer(const Request& request, uint64_t key, const char* data, size_t size) {
    uint64_t wire = own_begin() + key;
    int32_t len = int32_t(size);
    // The values are lent: the library reads them when it sends them.
    pslite_kv kv = {lend(&wire, 8), lend(data, size), lend(&len, 4)};
    check(pslite_server_respond(customer_, &request, &kv), "pslite_server_respond");
  }

  static int sender(const Request& request) { return request.sender; }
  static bool is_push(const Request& request) { return request.push != 0; }

 private:
  static pslite_buffer lend(const void* data, size_t size) {
    return pslite_buffer{data, size, nullptr, nullptr};
  }
  uint64_t own_begin() { return ranges_[size_t(info_.rank / group_)].begin; }

  static void* place(void* arg, size_t bytes) {
    std::vector<int64_t>* values = *static_cast<std::vector<int64_t>**>(arg);
    return bytes == values->size() * 8 ? values->data() : nullptr;
  }

  static void receive(void* arg, const pslite_message* message) {
    Node* self = static_cast<Node*>(arg);
    pslite_meta meta;
    pslite_message_meta(message, &meta);
    if (!meta.request) return;
    if (meta.simple_app) {
      require(meta.head == 5 && std::string(meta.body, meta.body_size) == "hello", "the command");
      check(pslite_simple_respond(self->customer_, &meta, nullptr, 0), "pslite_simple_respond");
      return;
    }
    {
      // Requests may come before pslite_start has returned.
      for (bool is_started = false; !is_started; std::this_thread::yield()) {
        std::lock_guard<std::mutex> lock(self->started_);
        is_started = self->is_started_;
      }
    }
    require(pslite_message_frames(message) >= 2, "keys and values");
    pslite_slice keys = pslite_message_frame(message, 0), vals = pslite_message_frame(message, 1);
    uint64_t wire = 0;
    require(keys.size == 8, "one key");
    std::memcpy(&wire, keys.data, 8);
    self->handler_(meta, wire - self->own_begin(), static_cast<const char*>(vals.data), vals.size);
  }

  pslite_node* node_ = nullptr;
  pslite_customer* customer_ = nullptr;
  pslite_node_info info_;
  int32_t group_ = 1;
  std::vector<pslite_range> ranges_;
  std::map<uint64_t, std::vector<int64_t>*> into_;
  Handler handler_;
  std::mutex started_;
  bool is_started_ = false;
};

#endif

// ---- the server, as BytePS's --------------------------------------------------------------------

struct Key {
  std::vector<int64_t> values;
  std::vector<Request> first;  // the pushes that make the key
  bool is_made = false;
  int pushed = 0;               // of the open round
  bool is_complete = false;     // somebody may pull
  std::set<int> seen;           // who has pulled
  std::vector<Request> parked;  // pulls that came too early
};

class Server {
 public:
  explicit Server(Node* node) : node_(node) {}

  void handle(const Request& request, uint64_t key, const char* data, size_t size) {
    std::lock_guard<std::mutex> lock(mutex_);
    Key& k = keys_[key];
    if (!Node::is_push(request)) {
      if (!answer(&k, key, request)) k.parked.push_back(request);
      return;
    }
    require(size == size_of(key), "the size of a push");
    if (!k.is_made) {
      k.first.push_back(request);
      k.values.resize(size / 8);
      if (int(k.first.size()) < node_->workers()) return;
      k.is_made = true;
      for (const Request& waiting : k.first) node_->acknowledge(waiting);
      return;
    }
    if (k.pushed == 0) {
      std::memcpy(k.values.data(), data, size);
    } else {
      for (size_t i = 0; i < k.values.size(); ++i) {
        int64_t value;
        std::memcpy(&value, data + 8 * i, 8);  // it may be unaligned
        k.values[i] += value;
      }
    }
    node_->acknowledge(request);
    if (++k.pushed < node_->workers()) return;
    k.pushed = 0;
    k.is_complete = true;
    std::vector<Request> parked;
    parked.swap(k.parked);
    for (const Request& pull : parked)
      if (!answer(&k, key, pull)) k.parked.push_back(pull);
  }

 private:
  bool answer(Key* k, uint64_t key, const Request& pull) {
    if (!k->is_complete || k->seen.count(Node::sender(pull))) return false;
    // Out of the memory that the next round changes.
    node_->answer(pull, key, reinterpret_cast<const char*>(k->values.data()), k->values.size() * 8);
    k->seen.insert(Node::sender(pull));
    if (int(k->seen.size()) == node_->workers()) {
      k->seen.clear();
      k->is_complete = false;
    }
    return true;
  }

  Node* node_;
  std::mutex mutex_;
  std::map<uint64_t, Key> keys_;
};

// ---- workers ------------------------------------------------------------------------------------

long work(Node* node) {
  std::vector<std::vector<int64_t>> out, in;
  for (int key = 0; key < num_keys; ++key) {
    out.emplace_back(size_of(uint64_t(key)) / 8);
    in.emplace_back(out.back().size());
    node->wait(node->push(uint64_t(key), out.back()));
  }
  node->command();
  // Of the nodes of a process each pushes the same to a server of its own.
  int process = node->rank() / setting("GROUP", 1);
  long wrong = 0;
  for (int round = 1; round <= rounds; ++round) {
    std::vector<int> waiting;
    for (int key = 0; key < num_keys; ++key) {
      out[key].assign(out[key].size(), value_of(process, round, uint64_t(key)));
      waiting.push_back(node->push(uint64_t(key), out[key]));
    }
    for (int timestamp : waiting) node->wait(timestamp);
    waiting.clear();
    for (int key = 0; key < num_keys; ++key) waiting.push_back(node->pull(uint64_t(key), &in[key]));
    for (int timestamp : waiting) node->wait(timestamp);
    for (int key = 0; key < num_keys; ++key) {
      int64_t sum = 0;
      for (int rank = 0; rank < node->workers(); ++rank)
        sum += value_of(rank, round, uint64_t(key));
      for (int64_t value : in[key]) wrong += value != sum;
    }
    if (!tight) node->barrier(4);
  }
  return wrong;
}

long run(int place) {
  Node node(place);
  Server server(&node);
  node.start([&server](const Request& request, uint64_t key, const char* data, size_t size) {
    server.handle(request, key, data, size);
  });
  long wrong = Node::role() == "worker" ? work(&node) : 0;
  node.finish();
  return wrong;
}

void run_job() {
  int group = Node::role() == "scheduler" ? 1 : setting("GROUP", 1);
  std::vector<long> wrong(size_t(group), 0);
  std::vector<std::thread> threads;
  for (int place = 1; place < group; ++place)
    threads.emplace_back([place, &wrong] { wrong[place] = run(place); });
  wrong[0] = run(0);
  for (std::thread& thread : threads) thread.join();
  long total = 0;
  for (long one : wrong) total += one;
  if (Node::role() != "worker") return;
  if (total) {
    std::printf("%ld values are wrong\n", total);
    std::fflush(stdout);
    std::_Exit(3);
  }
  std::printf("all sums are right\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  require(argc == 5, "usage: byteps ROUNDS KEYS ELEMENTS apart|tight");
  rounds = std::atoi(argv[1]);
  num_keys = std::atoi(argv[2]);
  elements = std::atoi(argv[3]);
  tight = std::string(argv[4]) == "tight";
  run_job();
  if (const char* next = std::getenv("NEXT")) {
    int workers = 0, servers = 0, port = 0;
    require(std::sscanf(next, "%d,%d,%d", &workers, &servers, &port) == 3, "NEXT");
    setenv("DMLC_NUM_WORKER", std::to_string(workers).c_str(), 1);
    setenv("DMLC_NUM_SERVER", std::to_string(servers).c_str(), 1);
    setenv("DMLC_PS_ROOT_PORT", std::to_string(port).c_str(), 1);
    run_job();
  }
  return 0;
}
