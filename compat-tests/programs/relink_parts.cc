// What of ps/ps.h needs no job: arrays, ranges, messages, settings, queues, sorting and matching,
// checks and logs. One process, of two units (relink_unit.cc).
#include <ps/internal/assign_op.h>
#include <ps/internal/parallel_kv_match.h>
#include <ps/internal/parallel_sort.h>
#include <ps/internal/threadsafe_pqueue.h>
#include <ps/internal/threadsafe_queue.h>
#include <ps/ps.h>

#include <memory>
#include <thread>

#include "relink.h"

namespace {

void arrays() {
  ps::SArray<int> none;
  require(none.empty() && none.size() == 0 && none.capacity() == 0 && none.begin() == none.end(),
          "an empty array");
  ps::SArray<int> threes(4, 3);
  require_equal(threes.size(), 4U, "size");
  require_equal(threes.front() + threes.back() + threes[1], 9, "values");

  // Copies share the memory.
  ps::SArray<int> same = threes;
  same[0] = 7;
  require_equal(threes[0], 7, "a copy shares the memory");
  ps::SArray<int> copy;
  copy.CopyFrom(threes);
  copy[0] = 8;
  require_equal(threes[0], 7, "CopyFrom does not");
  copy.CopyFrom(threes.data(), 2);
  require_equal(copy.size(), 2U, "CopyFrom of some elements");
  const std::vector<int> numbers = {1, 2, 3, 4, 5};
  copy.CopyFrom(numbers.begin() + 1, numbers.end());
  require_equal(copy[3], 5, "CopyFrom of iterators");

  // As another type.
  ps::SArray<char> bytes(threes);
  require_equal(bytes.size(), 4 * sizeof(int), "as bytes");
  ps::SArray<int> back(bytes);
  require(back.data() == threes.data() && back.size() == 4, "and back, the same memory");
  bytes = ps::SArray<int>(2, 1);
  require_equal(bytes.size(), 2 * sizeof(int), "assigned another type");
  require_text(thrown_by([] { ps::SArray<int> part(ps::SArray<char>(3)); }, "three bytes as int"),
               "divided", "SArray");

  // Memory of others.
  int mine[3] = {1, 2, 3};
  {
    ps::SArray<int> lent(mine, 3);
    lent[1] = 9;
    ps::SArray<int> device(mine, 3, ps::GPU, 1, ps::CPU, 0);
    require(device.src_device_type_ == ps::GPU && device.src_device_id_ == 1, "devices");
    require(device.dst_device_type_ == ps::CPU && device.dst_device_id_ == 0, "devices");
    const ps::DeviceType kind = ps::SArray<int>().src_device_type_;
    require(kind == ps::CPU, "the host's memory");
    require(device.segment(1, 2).src_device_type_ == ps::GPU, "devices of a segment");
    require_text(device.DebugString(), "GPU[1]", "DebugString");
    require_text(device.DebugString(), "CPU[0]", "DebugString");
  }
  require_equal(mine[1], 9, "lent memory is the caller's");
  ps::SArray<int> owned(new int[2]{4, 5}, 2, true);
  require_equal(owned[1], 5, "memory that was given away");
  bool freed = false;
  {
    ps::SArray<int> other;
    other.reset(mine, 3, [&freed](int*) { freed = true; });
    const ps::SArray<int> part = other.segment(1, 3);
    other.clear();
    require(!freed && part.size() == 2 && part[0] == 9, "a segment keeps the memory");
  }
  require(freed, "the deleter is called with the last owner");
  const auto vector = std::make_shared<std::vector<int>>(numbers);
  const ps::SArray<int> shared(vector);
  require(shared.data() == vector->data(), "a shared vector's own memory");
  require(ps::SArray<int>(numbers).data() != numbers.data(), "a vector is copied");
  ps::SArray<double> list = {1.5, 2.5};
  list = {3.5};
  require(list.size() == 1 && list[0] == 3.5, "a list");
  thrown_by([&] { shared.segment(3, 9); }, "a segment behind the end");
  thrown_by([&] { none.back(); }, "the last of none");

  // Growing.
  ps::SArray<int> grown;
  for (int i = 0; i < 1000; ++i) grown.push_back(i);
  grown.push_back(grown[10]);
  require(grown.size() == 1001 && grown[999] == 999 && grown.back() == 10, "push_back");
  grown.pop_back();
  require_equal(grown.size(), 1000U, "pop_back");
  grown.append(grown);
  require(grown.size() == 2000 && grown[1999] == 999, "append of itself");
  grown.resize(10);
  grown.resize(12, 77);
  require(grown[9] == 9 && grown[10] == 77 && grown[11] == 77, "resize fills what is new");
  grown.reserve(5000);
  require(grown.capacity() >= 5000 && grown[9] == 9, "reserve");
  int sum = 0;
  for (const int each : grown) sum += each;
  require_equal(sum, 45 + 154, "begin and end");
  require(grown.ptr().get() == grown.data(), "ptr");

  std::ostringstream text;
  text << ps::SArray<int>({1, 2, 3});
  require_equal(text.str(), std::string("[3]: 1 2 3 "), "as text");
  require_equal(ps::DebugStr(numbers.data(), 5, 2), std::string("[5]: 1 2 ... 4 5 "), "long ones");

  const ps::SArray<int> sorted = {1, 3, 5, 7, 9};
  const ps::Range range = ps::FindRange(sorted, 3, 8);
  require(range.begin() == 1 && range.end() == 4 && range.size() == 3, "FindRange");
  require_equal(ps::FindRange(sorted, 8, 3).size(), 0U, "an empty range");
}

void messages() {
  ps::Message message;
  require(message.meta.control.empty() && message.meta.head == ps::Meta::kEmpty,
          "an empty message");
  message.meta.sender = 9;
  message.meta.recver = 8;
  message.meta.body = "text";
  message.AddData(ps::SArray<ps::Key>({1, 2}));
  message.AddData(ps::SArray<float>(6));
  message.AddData(ps::SArray<char>(1));
  require_equal(message.meta.data_size, 16 + 24 + 1, "bytes of data");
  require(message.meta.data_type == std::vector<ps::DataType>({ps::UINT64, ps::FLOAT, ps::OTHER}),
          "types of data");
  require_text(message.DebugString(), "9 => 8", "DebugString");
  require_text(message.DebugString(), "FLOAT", "DebugString");
  require_text(message.DebugString(), "text", "DebugString");
  message.meta.control.cmd = ps::Control::BARRIER;
  message.meta.control.barrier_group = 7;
  require_text(message.meta.DebugString(), "barrier_group=7", "DebugString");

  require(message.meta.val_len == 0 && message.meta.key == 0 && message.meta.sid == 0 &&
              message.meta.src_dev_id == 0,
          "what only BytePS's has");
  const ps::Control::Command last = ps::Control::INSTANCE_BARRIER,
                             before = ps::Control::ADDR_RESOLVED;
  require(last == 9 && before == 8 && ps::Control::ADDR_REQUEST == 7, "BytePS's commands");

  ps::Node node;
  node.role = ps::Node::WORKER;
  require_equal(node.ShortDebugString(), std::string("W"), "a node without id");
  node.id = 11;
  require_equal(node.ShortDebugString(), std::string("W[11]"), "a node");
  require_text(node.DebugString(), "role=worker", "DebugString");
  const int& empty = ps::Node::kEmpty;
#ifdef PSLITE_DIALECT_BYTEPS
  require_equal(empty, 32767, "kEmpty");
#else
  require_equal(empty, 2147483647, "kEmpty");
#endif
  require(ps::SameType<const int, int>() && !ps::SameType<int, char>(), "SameType");
  require(ps::GetDataType<int64_t>() == ps::INT64 && ps::GetDataType<double>() == ps::DOUBLE &&
              ps::GetDataType<uint8_t>() == ps::UINT8,
          "GetDataType");
  require_equal(std::string(ps::DataTypeName[ps::UINT32]), std::string("UINT32"), "DataTypeName");

  const ps::Postoffice& office = *ps::Postoffice::Get();
  require(office.WorkerRankToID(3) == 15 && office.ServerRankToID(3) == 14 &&
              office.IDtoRank(15) == 3 && ps::Postoffice::IDtoRank(1) == 0,
          "ids and ranks");
}

void settings() {
  setenv("RELINK_NUMBER", "41", 1);
  setenv("RELINK_TEXT", "some", 1);
  require_equal(ps::GetEnv("RELINK_NUMBER", 1), 41, "a number");
  require_equal(ps::GetEnv("RELINK_NONE", 1), 1, "a number that is not set");
  require_equal(ps::GetEnv("RELINK_TEXT", 1), 0, "a text as number");
  require_equal(std::string(ps::GetEnv("RELINK_TEXT", "other")), std::string("some"), "a text");
  require_equal(ps::GetEnv("RELINK_TEXT", std::string("other")), std::string("some"), "a string");
  require_equal(ps::GetEnv("RELINK_NUMBER", 1.5), 41.0, "a double");
  require(ps::Environment::Get()->find("RELINK_NONE") == nullptr, "a variable that is not set");
  const char* before = nullptr;
  ps::Environment::Init({{"RELINK_TEXT", "first"}, {"RELINK_NONE", "set"}});
  before = ps::Environment::Get()->find("RELINK_TEXT");
  ps::Environment::Init({{"RELINK_TEXT", "map"}});
  require_equal(std::string(before), std::string("first"), "what was found before stays");
  require_equal(std::string(ps::Environment::Get()->find("RELINK_TEXT")), std::string("map"),
                "the map goes first");
  require_equal(ps::GetEnv("RELINK_NUMBER", 1), 41, "then the environment");
  require(ps::Environment::_GetSharedRef().get() == ps::Environment::Get(), "_GetSharedRef");
  ps::Environment::Init({});

  // Before the start: what the environment says.
  require(ps::IsWorker() && !ps::IsServer() && !ps::IsScheduler(), "the role");
  require_equal(ps::NumWorkers(), 2, "NumWorkers");
  require_equal(ps::NumServers(), 3, "NumServers");
  require_equal(ps::Postoffice::Get()->GetServerKeyRanges().size(), 3U,
                "one range for each server");
  require_text(thrown_by([] { ps::MyRank(); }, "MyRank"), "call Start() first", "MyRank");
  thrown_by([] { ps::Postoffice::Get()->Barrier(0, 7); }, "a barrier before the start");
  require(!ps::Postoffice::Get()->van()->IsReady(), "IsReady");
  ps::Environment::Init({{"DMLC_NUM_WORKER", "two"}});
  require_text(thrown_by([] { ps::Start(0); }, "a bad setting"), "DMLC_NUM_WORKER", "Start");
  ps::Environment::Init({});
}

// A job of a scheduler alone.
void a_job_of_one() {
  ps::Environment::Init(
      {{"DMLC_ROLE", "scheduler"}, {"DMLC_NUM_WORKER", "0"}, {"DMLC_NUM_SERVER", "0"}});
  ps::Van* const van = ps::Postoffice::Get()->van();
  van->Start(0);
  require(van->IsReady() && ps::IsScheduler() && ps::MyRank() == 0, "the only node");
  van->Stop();
  require(!van->IsReady(), "the end of the only node");
  thrown_by([&] { van->my_node(); }, "who it is then");
  ps::Environment::Init({});
}

void queues() {
  ps::ThreadsafeQueue<std::unique_ptr<int>> queue;
  std::thread thread([&queue] {
    for (int i = 0; i < 1000; ++i) queue.Push(std::unique_ptr<int>(new int(i)));
  });
  for (int i = 0; i < 1000; ++i) {
    std::unique_ptr<int> got;
    queue.WaitAndPop(&got);
    require_equal(*got, i, "first in, first out");
  }
  thread.join();
  ps::ThreadsafePQueue by_priority;
  for (int i = 0; i < 9; ++i) {
    ps::Message message;
    message.meta.priority = i % 3;
    message.meta.timestamp = i;
    by_priority.Push(message);
  }
  for (const int wanted : {2, 5, 8, 1, 4, 7, 0, 3, 6}) {
    ps::Message message;
    by_priority.WaitAndPop(&message);
    require_equal(message.meta.timestamp, wanted, "by priority, then in order");
  }
}

void sorting() {
  ps::SArray<int> numbers;
  for (int i = 0; i < 100000; ++i) numbers.push_back((i * 7919) % 100003);
  ps::ParallelSort(&numbers, 4);
  require(std::is_sorted(numbers.begin(), numbers.end()), "sorted by four threads");
  ps::ParallelSort(&numbers, 2, std::greater<int>());
  require(std::is_sorted(numbers.begin(), numbers.end(), std::greater<int>()),
          "sorted the other way");

  const ps::SArray<ps::Key> from = {1, 3, 5, 7}, to = {3, 4, 7, 9};
  const ps::SArray<float> vals = {1, 2, 3, 4, 5, 6, 7, 8};
  ps::SArray<float> matched;
  require_equal(ps::ParallelOrderedMatch(from, vals, to, &matched, 2), 4U,
                "values that were matched");
  require(std::vector<float>(matched.begin(), matched.end()) ==
              std::vector<float>({3, 4, 0, 0, 7, 8, 0, 0}),
          "the values of 3 and 7");
  std::vector<float> sum(8, 1);
  ps::ParallelOrderedMatch(from, vals, to, &sum, 2, ps::PLUS);
  require(sum == std::vector<float>({4, 5, 1, 1, 8, 9, 1, 1}), "added");
  thrown_by([&] { ps::ParallelOrderedMatch(from, vals, to, &matched, 2, ps::XOR); },
            "bits of a float");
  // Enough for several threads.
  ps::SArray<ps::Key> many;
  ps::SArray<int> ones;
  for (ps::Key key = 0; key < 3000000; ++key) many.push_back(key);
  ones.resize(many.size(), 5);
  ps::SArray<int> target(many.size(), 6);
  require_equal(ps::ParallelOrderedMatch(many, ones, many, &target, 1, ps::XOR, 4), many.size(),
                "all of them");
  require(std::all_of(target.begin(), target.end(), [](int value) { return value == 3; }),
          "5 xor 6");

  const ps::AssignOp ops[] = {ps::ASSIGN, ps::PLUS, ps::MINUS, ps::TIMES,
                              ps::DIVIDE, ps::AND,  ps::OR,    ps::XOR};
  const int wanted[] = {3, 15, 9, 36, 4, 0, 15, 15};
  for (int i = 0; i < 8; ++i) {
    int value = 12;
    ps::AssignFuncInt(3, ops[i], &value);
    require_equal(value, wanted[i], "AssignFuncInt");
  }
  float value = 12;
  ps::AssignFunc(3.f, ps::DIVIDE, &value);
  require_equal(value, 4.f, "AssignFunc");
  thrown_by([&] { ps::AssignFunc(3.f, ps::AND, &value); }, "bits of a float");
}

struct NotCopied {
  NotCopied() {}
  DISALLOW_COPY_AND_ASSIGN(NotCopied);
};

void checks() {
  dmlc::InitLogging("relink_parts");
  CHECK(true) << "never";
  if (setting("DMLC_NUM_SERVER") == 3)
    CHECK_EQ(1, 1);
  else
    CHECK_NE(1, 1);
  CHECK_LT(1, 2);
  CHECK_LE(1, 1);
  CHECK_GT(2, 1);
  CHECK_GE(2, 2);
  DCHECK(true);
  DCHECK_EQ(1, 1);
  int number = 1;
  require(CHECK_NOTNULL(&number) == &number, "CHECK_NOTNULL");
  int* null = nullptr;
  require_text(thrown_by([&] { *CHECK_NOTNULL(null) = 1; }, "null"), "null", "CHECK_NOTNULL");
  try {
    CHECK_EQ(number, 2) << "it is " << number;
    require(false, "a check that fails throws");
  } catch (const dmlc::Error& error) {
    require_text(error.what(), "Check failed: (number) == (2) it is 1", "dmlc::Error");
  }
  require_text(thrown_by([] { LOG(FATAL) << "the end"; }, "LOG(FATAL)"), "the end", "LOG");
  LOG(INFO) << "information";
  LOG(WARNING) << "a warning";
  LL << "an error";
  LOG_IF(INFO, number == 2) << "not this";
  VLOG(1) << "something";
  DLOG(INFO) << "maybe";
  DLOG_IF(INFO, number == 1) << "maybe";
  LG << "information too";
  LOG_EVERY_N(INFO, 2) << "each time";
  require(DMLC_LOG_FATAL_THROW == 1 && DMLC_USE_GLOG == 0 && DMLC_USE_CXX11 == 1, "switches");
  PS_VLOG(1) << "not this either";
  const std::vector<int> some = {5}, none;
  require(dmlc::BeginPtr(some) == some.data() && dmlc::BeginPtr(none) == nullptr, "BeginPtr");
  NotCopied not_copied;
  (void)not_copied;
}

}  // namespace

#ifdef RELINK_TWO_UNITS
ps::Postoffice* postoffice_of_the_other_unit();
ps::Environment* environment_of_the_other_unit();
const int* empty_of_the_other_unit();

static void units() {
  require(postoffice_of_the_other_unit() == ps::Postoffice::Get(), "one postoffice in all units");
  require(environment_of_the_other_unit() == ps::Environment::Get(),
          "one environment in all units");
  require(empty_of_the_other_unit() == &ps::Meta::kEmpty, "one kEmpty in all units");
}
#endif

int main() {
#ifdef RELINK_TWO_UNITS
  units();
#endif
  arrays();
  messages();
  settings();
  a_job_of_one();
  queues();
  sorting();
  checks();
  return all_is_right();
}
