// The same source over ps-lite and over pslite: prints what it sees, which must be the same. Only
// calls that all generations have: upstream, BytePS 0.2.5, pslite.
#include <ps/ps.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

void say(const char* what, const std::string& text) { std::printf("%s: %s\n", what, text.c_str()); }

template <typename V>
std::string text_of(const V* data, size_t count) {
  // All of it, as one number, and its ends as ps-lite writes them.
  double sum = 0;
  for (size_t i = 0; i < count; ++i)
    sum += static_cast<double>(data[i]) * static_cast<double>(i % 97 + 1);
  return std::to_string(sum) + " " + ps::DebugStr(data, static_cast<int>(count), 3);
}

void barrier(int group) { ps::Postoffice::Get()->Barrier(0, group); }

void job() {
  ps::Postoffice* const office = ps::Postoffice::Get();
  std::string ids, ranges;
  for (const int group : {1, 2, 3, 4, 5, 6, 7, 8, 9}) {
    ids += "|";
    for (const int id : office->GetNodeIDs(group)) ids += " " + std::to_string(id);
  }
  for (const ps::Range& range : office->GetServerKeyRanges()) {
    ranges += " " + std::to_string(range.begin()) + "-" + std::to_string(range.end());
  }
  say("job", std::to_string(ps::NumWorkers()) + " " + std::to_string(ps::NumServers()) + " rank " +
                 std::to_string(ps::MyRank()) + " id " +
                 std::to_string(office->van()->my_node().id));
  say("ids", ids);
  say("ranges", ranges);
}

void arrays() {
  ps::SArray<int> numbers({5, 4, 3, 2, 1, 0, 7});
  ps::SArray<char> bytes(numbers);
  numbers.push_back(9);
  numbers.append(numbers.segment(1, 4));
  numbers.resize(13, 6);
  ps::SArray<short> shorts(numbers.segment(2, 5));
  say("arrays", text_of(numbers.data(), numbers.size()) + text_of(bytes.data(), bytes.size()) +
                    text_of(shorts.data(), shorts.size()));
  std::sort(numbers.begin(), numbers.end());
  const ps::Range range = ps::FindRange(numbers, 3, 7);
  say("range", std::to_string(range.begin()) + " " + std::to_string(range.size()));
}

// ---- servers

struct Store {
  std::map<ps::Key, std::vector<char>> values;

  void operator()(const ps::KVMeta& meta, const ps::KVPairs<char>& data,
                  ps::KVServer<char>* server) {
    ps::KVPairs<char> answer;
    size_t at = 0;
    for (size_t i = 0; i < data.keys.size(); ++i) {
      std::vector<char>& value = values[data.keys[static_cast<int>(i)]];
      if (meta.push) {
        const size_t len = static_cast<size_t>(data.lens[static_cast<int>(i)]);
        value.assign(data.vals.data() + at, data.vals.data() + at + len);
        at += len;
        continue;
      }
      answer.keys.push_back(data.keys[static_cast<int>(i)]);
      answer.lens.push_back(static_cast<int>(value.size()));
      answer.vals.append(ps::SArray<char>(value));
    }
    server->Response(meta, answer);
  }
};

// ---- workers

void numbers(ps::KVWorker<float>* kv) {
  std::vector<ps::Key> keys;
  std::vector<float> vals;
  for (int i = 0; i < 1000; ++i) {
    keys.push_back(ps::kMaxKey / 1000 * static_cast<uint64_t>(i) + 1);
    vals.push_back(static_cast<float>((i * 37 + ps::MyRank()) % 1000));
  }
  std::string timestamps;
  for (int i = 0; i < 5; ++i) {
    const int timestamp = kv->Push(keys, vals);
    timestamps += " " + std::to_string(timestamp);
    kv->Wait(timestamp);
  }
  barrier(ps::kWorkerGroup);
  // BytePS 0.2.5's Pull into a vector does not compile.
  const ps::SArray<ps::Key> all(keys);
  ps::SArray<float> got;
  std::string order;
  const int pull = kv->ZPull(all, &got, nullptr, 0,
                             [&] { order += "called with " + std::to_string(got.size()); });
  kv->Wait(pull);
  say("requests",
      timestamps + ", " + std::to_string(pull) + ", " + order + " before Wait returned");
  say("sums", text_of(got.data(), got.size()));
  ps::SArray<float> mine(400);
  kv->Wait(kv->ZPull(all.segment(300, 700), &mine));
  say("some of them", text_of(mine.data(), mine.size()));
}

void lengths(ps::KVWorker<char>* kv) {
  ps::SArray<ps::Key> keys;
  ps::SArray<int> lens;
  ps::SArray<char> vals;
  for (const ps::Range& range : ps::Postoffice::Get()->GetServerKeyRanges()) {
    for (uint64_t i = 0; i < 5; ++i) {
      keys.push_back(range.begin() + static_cast<uint64_t>(ps::MyRank()) * 100 + i);
      lens.push_back(static_cast<int>(i * 3001));
      for (int k = 0; k < lens.back(); ++k)
        vals.push_back(static_cast<char>(k * 13 + static_cast<int>(i)));
    }
  }
  kv->Wait(kv->ZPush(keys, vals, lens, 3));
  ps::SArray<char> got;
  ps::SArray<int> got_lens;
  kv->Wait(kv->ZPull(keys, &got, &got_lens));
  say("lens", text_of(got_lens.data(), got_lens.size()));
  say("values", text_of(got.data(), got.size()));
  // Every server gets what the application cuts for it: here the last one all.
  kv->set_slicer([](const ps::KVPairs<char>& send, const std::vector<ps::Range>& ranges,
                    ps::KVWorker<char>::SlicedKVs* sliced) {
    sliced->resize(ranges.size());
    sliced->back() = std::make_pair(true, send);
  });
  const ps::SArray<ps::Key> one({static_cast<ps::Key>(77 + ps::MyRank())});
  kv->Wait(kv->ZPush(one, vals.segment(5, 25), ps::SArray<int>({20}), 3));
  ps::SArray<char> back;
  kv->Wait(kv->ZPull(one, &back));
  say("cut by the application", text_of(back.data(), back.size()));
}

void commands(ps::KVWorker<char>* kv) {
  std::mutex mutex;
  std::vector<std::string> answers;
  kv->set_response_handle([&](const ps::SimpleData& answer, ps::SimpleApp*) {
    std::lock_guard<std::mutex> lock(mutex);
    answers.push_back(std::to_string(answer.head) + " " + answer.body + " from " +
                      std::to_string(answer.sender));
  });
  for (int i = 0; i < 3; ++i)
    kv->Wait(kv->Request(i, "text " + std::to_string(i), ps::kServerGroup));
  std::sort(answers.begin(), answers.end());
  std::string all;
  for (const std::string& answer : answers) all += answer + "; ";
  say("answers", all);
}

}  // namespace

int main() {
  ps::RegisterExitCallback([] { say("end", "the exit callback"); });
  ps::KVServer<float>* first = nullptr;
  ps::KVServer<char>* second = nullptr;
  // Apps before the start: then no message can be too early for them.
  if (std::string(std::getenv("DMLC_ROLE")) == "server") {
    first = new ps::KVServer<float>(0);
    first->set_request_handle(ps::KVServerDefaultHandle<float>());
    second = new ps::KVServer<char>(1);
    second->set_request_handle(Store());
    static_cast<ps::SimpleApp*>(second)->set_request_handle(
        [](const ps::SimpleData& request, ps::SimpleApp* self) {
          self->Response(request, request.body + " at " + std::to_string(ps::MyRank()));
        });
  }
  ps::Start(0);
  job();
  arrays();
  if (ps::IsWorker()) {
    ps::KVWorker<float> floats(0, 0);
    numbers(&floats);
    ps::KVWorker<char> bytes(1, 0);
    lengths(&bytes);
    commands(&bytes);
  }
  barrier(7);
  ps::Finalize(0, true);
  delete first;
  delete second;
  return 0;
}
