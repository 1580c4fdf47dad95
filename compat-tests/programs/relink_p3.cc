// A thread that pushes in p3 mode and often loses its processor just after a push has returned. It
// looks at what the end of that push changes, as MXNet's P3 looks at what the end of its last push
// frees (p3store_dist.h, PushDefault).
#include <ps/ps.h>

#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "relink.h"

namespace {

// As many pushes as this, or as find time: on a busy machine this thread hardly runs.
const int kPushes = 1500;
const std::chrono::seconds kTime(5);
// Microseconds for which the other thread keeps the processor.
const int kTurn = 50;
// What a caller does before it looks: far less than what the library takes for having moved on.
const int kWayOut = 5;

void stay_on(int processor) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(processor, &only);
  require_equal(sched_setaffinity(0, sizeof only, &only), 0, "sched_setaffinity");
}

// From now on the calling thread runs when nobody else wants to.
void give_way() {
  sched_param none = {};
  require_equal(sched_setscheduler(0, SCHED_IDLE, &none), 0, "sched_setscheduler");
}

void walk(int microseconds) {
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::microseconds(microseconds)) {
  }
}

// Wants the processor in short turns, as others of a busy machine do.
void take_turns(int processor, const std::atomic<bool>& over) {
  stay_on(processor);
  while (!over) {
    walk(kTurn);
    std::this_thread::sleep_for(std::chrono::microseconds(1));
  }
}

void work() {
  std::atomic<bool> over(false);
  const int processor = sched_getcpu();
  std::thread other([&] { take_turns(processor, over); });
  stay_on(processor);
  give_way();
  ps::KVWorker<float> kv(0, 0);
  const std::vector<ps::Key> keys = {1};
  const std::vector<float> values = {1};
  const auto begin = std::chrono::steady_clock::now();
  int pushes = 0, ends = 0, early = 0;
  for (; pushes < kPushes && std::chrono::steady_clock::now() - begin < kTime; ++pushes) {
    std::atomic<bool> ended(false);
    // So that its turn ends now here, now there.
    walk(pushes % kTurn);
    const int push = kv.Push(keys, values, {}, 0, [&ended] { ended = true; });
    walk(kWayOut);
    early += ended;
    kv.Wait(push);
    ends += ended;
  }
  over = true;
  other.join();
  require_equal(ends, pushes, "pushes that ended");
  require_equal(early, 0, "ends before the caller has looked");
}

}  // namespace

int main() {
  ps::Start(0);
  std::unique_ptr<ps::KVServer<float>> server;
  if (ps::IsServer()) {
    server.reset(new ps::KVServer<float>(0));
    server->set_request_handle(
        [](const ps::KVMeta& meta, const ps::KVPairs<float>&, ps::KVServer<float>* self) {
          self->Response(meta);
        });
  }
  if (ps::IsWorker()) work();
  ps::Finalize(0, true);
  return all_is_right();
}
