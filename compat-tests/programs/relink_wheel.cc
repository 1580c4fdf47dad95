// A C++ worker in a job whose scheduler and servers are those of the wheel of MXNet; and the other
// way round: a C++ scheduler and C++ servers whose workers are the wheel's (relink_wheel.py).
//
// What MXNet's nodes say to each other is from its kvstore_dist.h and kvstore_dist_server.h
// (1.9.1).
#include <ps/ps.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "relink.h"

namespace {

// Commands to a server.
const int kStopServer = 2;
const int kSyncMode = 3;
// What is pushed and pulled: whole arrays of a type, as MXNet pairs the two numbers.
const int kFloats = 0;
const int kDoubles = 2;

// One array of a model: on one server, or, if it is big, cut evenly for all of them.
template <typename V>
class Array {
 public:
  Array(ps::KVWorker<char>* kv, int number, size_t size, bool is_big, int cmd)
      : kv_(kv), size_(size), cmd_(cmd) {
    const std::vector<ps::Range>& ranges = ps::Postoffice::Get()->GetServerKeyRanges();
    const size_t begin = is_big ? 0 : static_cast<size_t>(number) * 9973 % ranges.size();
    const size_t end = is_big ? ranges.size() : begin + 1;
    for (size_t i = begin; i < end; ++i) {
      keys_.push_back(ranges[i].begin() + static_cast<uint64_t>(number));
      const size_t count =
          size * (i - begin + 1) / (end - begin) - size * (i - begin) / (end - begin);
      lens_.push_back(static_cast<int>(count * sizeof(V)));
    }
  }

  ps::KVWorker<char>& kv() { return *kv_; }

  // Element i is i % 100 * factor.
  int push(int factor) { return kv_->ZPush(keys_, bytes_of(factor), lens_, cmd_); }

  std::vector<V> pull() {
    ps::SArray<char> bytes;
    ps::SArray<int> lens;
    kv_->Wait(kv_->ZPull(keys_, &bytes, &lens, cmd_));
    require_equal(lens.size(), lens_.size(), "how many lens came");
    for (size_t i = 0; i < lens.size(); ++i)
      require_equal(lens[i], lens_[i], "how much came of a key");
    return numbers(bytes);
  }

  std::vector<V> push_pull(int factor) {
    ps::SArray<char> bytes(size_ * sizeof(V));
    kv_->Wait(kv_->ZPushPull(keys_, bytes_of(factor), &bytes, &lens_, cmd_));
    return numbers(bytes);
  }

  void check(const std::vector<V>& got, int factor, const std::string& what) {
    require_equal(got.size(), size_, what + ": the size");
    for (size_t i = 0; i < got.size(); ++i)
      require_equal(got[i], static_cast<V>(i % 100) * factor, what);
  }

 private:
  ps::SArray<char> bytes_of(int factor) {
    ps::SArray<V> values(size_);
    for (size_t i = 0; i < size_; ++i) values[i] = static_cast<V>(i % 100) * factor;
    return ps::SArray<char>(values);
  }
  std::vector<V> numbers(const ps::SArray<char>& bytes) {
    std::vector<V> values(bytes.size() / sizeof(V));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(V));
    return values;
  }

  ps::KVWorker<char>* const kv_;
  const size_t size_;
  const int cmd_;
  ps::SArray<ps::Key> keys_;
  ps::SArray<int> lens_;
};

void barrier() { ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup); }

// Several rounds of one array: in each the servers sum what all workers push, and give that back.
template <typename V>
void rounds(Array<V> array, const std::string& what) {
  const int workers = ps::NumWorkers(), rank = ps::MyRank();
  if (rank == 0) array.kv().Wait(array.push(1000));
  barrier();
  array.check(array.pull(), 1000, what + " at first");
  barrier();
  for (int round = 1; round <= 5; ++round) {
    const int sum = round * workers * (workers + 1) / 2;
    array.kv().Wait(array.push(round * (rank + 1)));
    array.check(array.pull(), sum, what + " after a push");
    array.check(array.push_pull(round * (rank + 1)), sum, what + " of a push with a pull");
  }
}

void work() {
  // As MXNet: the app before the start.
  ps::KVWorker<char> kv(0, 0);
  ps::Start(0, "mxnet");
  if (ps::MyRank() == 0) kv.Wait(kv.Request(kSyncMode, "", ps::kServerGroup));
  barrier();
  rounds(Array<float>(&kv, 0, 1, false, kFloats), "one number");
  rounds(Array<float>(&kv, 1, 1003, false, kFloats), "an array");
  rounds(Array<double>(&kv, 2, 1003, false, kDoubles), "an array of doubles");
  rounds(Array<float>(&kv, 3, 1000003, true, kFloats), "an array on all servers");
  barrier();
  if (ps::MyRank() == 0) kv.Wait(kv.Request(kStopServer, "", ps::kServerGroup));
  ps::Finalize(0, true);
}

// Adds what is pushed to what was pushed first.
class Sums {
 public:
  void operator()(const ps::KVMeta& meta, const ps::KVPairs<char>& data,
                  ps::KVServer<char>* server) {
    require_equal(meta.cmd, kFloats, "the type");
    require_equal(data.keys.size(), 1u, "MXNet asks for one key at a time");
    ps::SArray<float>& sum = sums_[data.keys[0]];
    if (meta.push) {
      const ps::SArray<float> pushed(data.vals);
      require_equal(data.lens[0], data.vals.size(), "the length");
      if (sum.empty()) sum.resize(pushed.size());
      require_equal(sum.size(), pushed.size(), "the size");
      // A new one: an answer with the last one may be under way.
      ps::SArray<float> next(sum.size());
      for (size_t i = 0; i < next.size(); ++i) next[i] = sum[i] + pushed[i];
      sum = next;
    }
    ps::KVPairs<char> answer;
    if (meta.pull) {
      answer.keys = data.keys;
      answer.vals = ps::SArray<char>(sum);
      answer.lens = {static_cast<int>(answer.vals.size())};
    }
    server->Response(meta, answer);
  }

 private:
  std::map<ps::Key, ps::SArray<float>> sums_;
};

void serve() {
  std::unique_ptr<ps::KVServer<char>> server;
  if (ps::IsServer()) {
    server.reset(new ps::KVServer<char>(0));
    server->set_request_handle(Sums());
  }
  ps::Start(0, "mxnet_server");
  ps::Finalize(0, true);
}

}  // namespace

int main() {
  if (ps::IsWorker()) {
    work();
  } else {
    serve();
  }
  return all_is_right();
}
