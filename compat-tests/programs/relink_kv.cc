// Keys and values through ps/ps.h, in upstream's usual patterns: one value for each key with the
// default handle, lens, memory that is not copied, callbacks, priorities, a slicer of the
// application, and calls that cannot be right.
#include <ps/ps.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>

#include "relink.h"

namespace {

const int kTimes = 50;
const int kWindow = 10;

// ---- app 0: upstream's handle, one value for each key

// Keys over the whole range, other ones for each worker; values below 1000.
void make(int count, std::vector<ps::Key>* keys, std::vector<float>* vals) {
  std::mt19937 random(static_cast<unsigned>(ps::MyRank()) + 17);
  const uint64_t step = ps::kMaxKey / static_cast<uint64_t>(count);
  for (int i = 0; i < count; ++i) {
    keys->push_back(step * static_cast<uint64_t>(i) + static_cast<uint64_t>(ps::MyRank()));
    vals->push_back(static_cast<float>(random() % 1000));
  }
}

void require_multiple(const std::vector<float>& got, const std::vector<float>& vals, int times,
                      const char* what) {
  require_equal(got.size(), vals.size(), what);
  for (size_t i = 0; i < vals.size(); ++i)
    require_equal(got[i], vals[i] * static_cast<float>(times), what);
}

void push_and_pull(ps::KVWorker<float>* kv) {
  std::vector<ps::Key> keys;
  std::vector<float> vals;
  make(10000, &keys, &vals);
  std::vector<int> timestamps;
  for (int i = 0; i < kTimes; ++i) {
    timestamps.push_back(kv->Push(keys, vals));
    if (i >= kWindow) kv->Wait(timestamps[static_cast<size_t>(i - kWindow)]);
  }
  for (const int timestamp : timestamps) kv->Wait(timestamp);
  std::vector<float> got;
  kv->Wait(kv->Pull(keys, &got));
  require_multiple(got, vals, kTimes, "pull");
  std::vector<float> outs;
  for (int i = 0; i < kTimes; ++i) {
    outs.clear();
    kv->Wait(kv->PushPull(keys, vals, &outs));
  }
  require_multiple(outs, vals, 2 * kTimes, "push and pull");
}

// Messages of all small sizes: over the stock wire they lie where its reader put them.
void small_messages(ps::KVWorker<float>* kv) {
  for (uint64_t count = 1; count < 300; count += 7) {
    std::vector<ps::Key> keys;
    std::vector<float> vals;
    for (uint64_t i = 0; i < count; ++i) {
      keys.push_back(1000 * (1 + static_cast<uint64_t>(ps::MyRank())) + count * 1000000 + i);
      vals.push_back(static_cast<float>(i));
    }
    std::vector<float> outs;
    kv->Wait(kv->PushPull(keys, vals, &outs));
    require(outs == vals, "values of a small message");
  }
}

void callbacks(ps::KVWorker<float>* kv) {
  const std::vector<ps::Key> keys = {3, 5, ps::kMaxKey / 2 + 100};
  const std::vector<float> vals = {1, 2, 3};
  ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup);
  std::atomic<int> called(0);
  kv->Wait(kv->Push(keys, vals, {}, 0, [&called] { ++called; }));
  require_equal(called.load(), 1, "the callback of a push comes before Wait returns");
  ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup);
  std::vector<float> got(3, -1.f);
  const ps::KVWorker<float>::Callback callback = [&called, &got] {
    require_equal(got[2], 3 * ps::NumWorkers(), "values are there when the callback is called");
    ++called;
  };
  const int timestamp = kv->Pull(keys, &got, nullptr, 0, callback);
  kv->Wait(timestamp);
  require_equal(called.load(), 2, "the callback of a pull comes before Wait returns");
  kv->Wait(timestamp);
}

void wrong_calls(ps::KVWorker<float>* kv) {
  const std::vector<ps::Key> unsorted = {ps::kMaxKey / 2 + 100, 3};
  require_text(thrown_by([&] { kv->Push(unsorted, {1, 2}); }, "keys that are not sorted"),
               "not sorted", "Push");
  require_text(thrown_by([&] { kv->Push({1, 2}, {1, 2, 3}); }, "three values for two keys"),
               "cannot be divided", "Push");
  require_text(thrown_by([&] { kv->Push({1, 2}, {1, 2, 3}, {3}); }, "one len for two keys"), "lens",
               "Push");
  require_text(thrown_by([&] { kv->Push({ps::kMaxKey}, {1}); }, "the last key"),
               "in no server's range", "Push");
  std::vector<float> small(1);
  const int timestamp = kv->Pull({3, 5}, &small);
  require_text(thrown_by([&] { kv->Wait(timestamp); }, "two values for an array of one"),
               "do not fit", "Wait");
  std::vector<float> outs(3);
  thrown_by([&] { kv->PushPull({3, 5}, {0, 0}, &outs); }, "an array of another size");
  // With a callback it is not only Wait that says so.
  std::atomic<bool> called(false);
  const int second = kv->Pull({3, 5}, &small, nullptr, 0, [&called] { called = true; });
  thrown_by([&] { kv->Wait(second); }, "the same with a callback");
  require(!called, "a request that failed does not call back");
  require_text(thrown_by([&] { kv->Push({3}, {0}); }, "the next request"),
               "an earlier request failed", "Push");
  kv->Wait(kv->Push({3, 5}, {0, 0}));
}

// ---- app 1: values of several lengths, which the server keeps and gives back

void keep(std::unordered_map<ps::Key, std::vector<char>>* store, const ps::KVMeta& meta,
          const ps::KVPairs<char>& data, ps::KVServer<char>* server) {
  require(ps::IsServer(), "requests come to servers");
  ps::KVPairs<char> answer;
  size_t at = 0;
  for (size_t i = 0; i < data.keys.size(); ++i) {
    std::vector<char>& own = (*store)[data.keys[static_cast<int>(i)]];
    if (meta.push) {
      const size_t len = data.lens.empty() ? data.vals.size() / data.keys.size()
                                           : static_cast<size_t>(data.lens[static_cast<int>(i)]);
      own.assign(data.vals.data() + at, data.vals.data() + at + len);
      at += len;
    }
    if (meta.pull) {
      answer.keys.push_back(data.keys[static_cast<int>(i)]);
      answer.lens.push_back(static_cast<int>(own.size()));
      answer.vals.append(ps::SArray<char>(own));
    }
  }
  if (meta.push) require_equal(at, data.vals.size(), "all values belong to a key");
  require_equal(meta.cmd, 4, "the command");
  require_equal(meta.customer_id, 0, "the worker's customer");
  server->Response(meta, answer);
}

std::vector<ps::Key> keys_of_all_servers() {
  std::vector<ps::Key> keys;
  for (const ps::Range& range : ps::Postoffice::Get()->GetServerKeyRanges()) {
    for (uint64_t i = 0; i < 3; ++i)
      keys.push_back(range.begin() + 10 * static_cast<uint64_t>(ps::MyRank()) + i);
  }
  return keys;
}

// Small ones, one that is empty, and some that are received where they belong.
ps::SArray<int> some_lens(size_t count) {
  ps::SArray<int> lens(count);
  for (size_t i = 0; i < count; ++i)
    lens[static_cast<int>(i)] = i % 3 == 2 ? 0 : static_cast<int>(7 + i * 70000);
  return lens;
}

ps::SArray<char> some_values(const ps::SArray<int>& lens, char seed) {
  size_t total = 0;
  for (const int len : lens) total += static_cast<size_t>(len);
  ps::SArray<char> values(total);
  for (size_t i = 0; i < total; ++i)
    values[static_cast<int>(i)] = static_cast<char>(seed + static_cast<char>(i * 7));
  return values;
}

template <typename V>
void require_same(const ps::SArray<V>& got, const ps::SArray<V>& wanted, const char* what) {
  require_equal(got.size(), wanted.size(), what);
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (got[static_cast<int>(i)] != wanted[static_cast<int>(i)])
      require(false, std::string(what) + " differ");
  }
}

void lengths(ps::KVWorker<char>* kv) {
  const ps::SArray<ps::Key> keys(keys_of_all_servers());
  const ps::SArray<int> lens = some_lens(keys.size());
  const char seed = static_cast<char>(ps::MyRank() * 50);
  {
    // The arrays are let go before the request is over: the library keeps them.
    ps::SArray<char> values = some_values(lens, seed);
    const int timestamp = kv->ZPush(keys, values, lens, 4);
    values.clear();
    kv->Wait(timestamp);
  }
  const ps::SArray<char> wanted = some_values(lens, seed);
  ps::SArray<char> got;
  ps::SArray<int> got_lens;
  kv->Wait(kv->ZPull(keys, &got, &got_lens, 4));
  require_same(got, wanted, "values");
  require_same(got_lens, lens, "lens");
  // Memory of the caller, as large as it must be; and larger.
  for (const size_t more : {size_t(0), size_t(1000)}) {
    std::vector<char> memory(wanted.size() + more, 'x');
    ps::SArray<char> mine(memory.data(), memory.size(), false);
    ps::SArray<int> expected(keys.size());
    expected.CopyFrom(lens);
    kv->Wait(kv->ZPull(keys, &mine, &expected, 4));
    require_same(ps::SArray<char>(memory.data(), wanted.size()), wanted,
                 "values in the caller's memory");
    for (size_t i = wanted.size(); i < memory.size(); ++i)
      require_equal(memory[i], 'x', "memory behind the values");
    require(mine.data() == memory.data(), "it is still the caller's memory");
  }
  // A push that brings back what it pushed.
  ps::SArray<char> outs;
  ps::SArray<int> again = some_lens(keys.size());
  const ps::SArray<char> others = some_values(lens, static_cast<char>(seed + 1));
  kv->Wait(kv->ZPushPull(keys, others, &outs, &again, 4));
  require_same(outs, others, "values that were pushed and pulled");
  require_same(again, lens, "lens of the same");
  std::vector<int> none;
  std::vector<char> same_size(keys.size() * 5, 'y'), back;
  kv->Wait(
      kv->PushPull(std::vector<ps::Key>(keys.begin(), keys.end()), same_size, &back, &none, 4));
  require(back == same_size, "values of equal length, pushed and pulled");
  require_equal(none.size(), keys.size(), "lens that were empty are filled");
}

// Objects that were not empty at the call are not looked at again: here they end, or stand for
// other memory, before Wait.
void gone_before_wait(ps::KVWorker<char>* kv) {
  const ps::SArray<ps::Key> keys(keys_of_all_servers());
  const ps::SArray<int> lens = some_lens(keys.size());
  const ps::SArray<char> wanted = some_values(lens, 3);
  kv->Wait(kv->ZPush(keys, wanted, lens, 4));
  for (const bool push_too : {false, true}) {
    std::vector<char> memory(wanted.size(), 'x');
    std::vector<int> timestamps;
    ps::SArray<int> got_lens;
    for (int i = 0; i < kWindow; ++i) {
      auto vals = std::make_shared<ps::SArray<char>>(memory.data(), memory.size());
      auto expected = std::make_shared<ps::SArray<int>>(lens.size(), -1);
      if (push_too) expected->CopyFrom(lens);
      got_lens = *expected;
      timestamps.push_back(push_too ? kv->ZPushPull(keys, wanted, vals.get(), expected.get(), 4)
                                    : kv->ZPull(keys, vals.get(), expected.get(), 4));
      *vals = ps::SArray<char>(1);
      expected->clear();
    }
    for (const int timestamp : timestamps) kv->Wait(timestamp);
    require_same(ps::SArray<char>(memory.data(), memory.size()), wanted,
                 "values of an object that is gone");
    require_same(got_lens, lens, "lens of an object that is gone");
  }
}

void priorities(ps::KVWorker<char>* kv) {
  const ps::SArray<ps::Key> keys(keys_of_all_servers());
  std::vector<int> timestamps;
  for (int i = 0; i < 20; ++i) {
    timestamps.push_back(
        kv->ZPush(keys, ps::SArray<char>(keys.size() * 3, 'p'), {}, 4, nullptr, -i));
  }
  for (const int timestamp : timestamps) kv->Wait(timestamp);
}

// The even keys go to the first server, the odd ones to the last, wherever their ranges are.
void own_slicer() {
  ps::KVWorker<char> kv(1, 1);
  std::atomic<int> asked(0);
  kv.set_slicer([&asked](const ps::KVPairs<char>& send, const std::vector<ps::Range>& ranges,
                         ps::KVWorker<char>::SlicedKVs* sliced) {
    require_equal(ranges.size(), static_cast<size_t>(ps::NumServers()),
                  "one range for each server");
    ++asked;
    sliced->resize(ranges.size());
    const size_t half = send.keys.size() / 2;
    for (size_t part = 0; part < 2; ++part) {
      auto& slice = (*sliced)[part == 0 ? 0 : ranges.size() - 1];
      slice.first = true;
      slice.second.keys = send.keys.segment(part * half, (part + 1) * half);
      if (send.vals.empty()) continue;
      slice.second.vals = send.vals.segment(part * half * 2, (part + 1) * half * 2);
    }
  });
  // All in the first server's range: the default slicer would give them to it.
  const ps::SArray<ps::Key> keys({500 + ps::MyRank() * 10, 501 + ps::MyRank() * 10});
  const ps::SArray<char> values({'a', 'b', 'c', 'd'});
  bool called = false;
  kv.Wait(kv.ZPush(keys, values, {}, 5, [&called] { called = true; }));
  require(called, "the callback of a push that was cut by the application");
  ps::SArray<char> got;
  kv.Wait(kv.ZPull(keys, &got, nullptr, 5));
  require_same(got, values, "values that were cut by the application");
  ps::SArray<char> outs;
  kv.Wait(kv.ZPushPull(keys, values, &outs, nullptr, 5));
  require_same(outs, values, "the same at once");
  require_equal(asked.load(), 3, "the slicer is asked for each request");

  // Nobody is asked at all: that is the end of the request.
  kv.set_slicer([](const ps::KVPairs<char>&, const std::vector<ps::Range>& ranges,
                   ps::KVWorker<char>::SlicedKVs* sliced) { sliced->resize(ranges.size()); });
  called = false;
  const int nothing = kv.ZPush(keys, values, {}, 5, [&called] { called = true; });
  require(called, "without a server the callback is called at once");
  kv.Wait(nothing);

  kv.set_slicer([](const ps::KVPairs<char>&, const std::vector<ps::Range>& ranges,
                   ps::KVWorker<char>::SlicedKVs* sliced) { sliced->resize(ranges.size() + 1); });
  require_text(thrown_by([&] { kv.ZPush(keys, values); }, "too many slices"), "too many slices",
               "ZPush");
  kv.set_slicer([](const ps::KVPairs<char>&, const std::vector<ps::Range>&,
                   ps::KVWorker<char>::SlicedKVs*) { throw std::runtime_error("no idea"); });
  require_text(thrown_by([&] { kv.ZPull(keys, &got); }, "a slicer that throws"), "no idea",
               "ZPull");
}

// A handle that throws: the request fails with that text, and the server goes on.
void refusals(ps::KVWorker<char>* kv) {
  const int timestamp = kv->ZPush(ps::SArray<ps::Key>({7}), ps::SArray<char>({'z'}), {}, 99);
  require_text(thrown_by([&] { kv->Wait(timestamp); }, "a push that the server refuses"),
               "the command", "Wait");
}

void work() {
  ps::KVWorker<float> numbers(0, 0);
  push_and_pull(&numbers);
  small_messages(&numbers);
  callbacks(&numbers);
  wrong_calls(&numbers);
  ps::KVWorker<char> bytes(1, 0);
  lengths(&bytes);
  gone_before_wait(&bytes);
  priorities(&bytes);
  own_slicer();
  refusals(&bytes);
}

}  // namespace

int main() {
  ps::Start(0);
  ps::KVServer<float>* numbers = nullptr;
  ps::KVServer<char>* bytes = nullptr;
  std::unordered_map<ps::Key, std::vector<char>> store;
  if (ps::IsServer()) {
    // Requests may be here before the servers are: they wait.
    numbers = new ps::KVServer<float>(0);
    numbers->set_request_handle(ps::KVServerDefaultHandle<float>());
    bytes = new ps::KVServer<char>(1);
    bytes->set_request_handle(
        [&](const ps::KVMeta& meta, const ps::KVPairs<char>& data, ps::KVServer<char>* server) {
          if (meta.cmd == 5) {
            // Cut by the application: each server has one of the two keys.
            require_equal(data.keys.size(), static_cast<size_t>(1), "keys of one part");
            require_equal(data.keys[0] % 2, static_cast<ps::Key>(ps::MyRank()),
                          "the server that was meant");
            require_equal(meta.customer_id, 1, "the worker's other customer");
            ps::KVPairs<char> answer;
            if (meta.push) store[data.keys[0]].assign(data.vals.begin(), data.vals.end());
            if (meta.pull) {
              answer.keys = data.keys;
              answer.vals.CopyFrom(store[data.keys[0]].data(), store[data.keys[0]].size());
            }
            return server->Response(meta, answer);
          }
          if (meta.cmd == 99) throw std::runtime_error("the command is 99");
          keep(&store, meta, data, server);
        });
  }
  if (ps::IsWorker()) work();
  ps::Finalize(0, true);
  delete numbers;
  delete bytes;
  return all_is_right();
}
