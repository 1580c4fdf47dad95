// What ps/ps.h says when a node is lost: a server ends in the middle of a request, and every call
// of the others that depends on it throws, with the reason.
#include <ps/ps.h>

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "relink.h"

namespace {

const int kDie = 66;

void work() {
  std::mutex mutex;
  std::condition_variable changed;
  int failures = 0;
  ps::Van::set_err_handle([&](void* van, ps::ErrorCode code, const std::string& text) {
    require(van == ps::Postoffice::Get()->van(), "the van is named");
    require_equal(static_cast<int>(code), static_cast<int>(ps::PS_ERR_CONNECTION_RESET),
                  "the kind of failure");
    require_text(text, "server", "who is lost");
    std::lock_guard<std::mutex> lock(mutex);
    ++failures;
    changed.notify_all();
  });
  ps::KVWorker<float> kv(0, 0);
  const std::vector<ps::Key> keys = {1, ps::kMaxKey / 2 + 1};
  kv.Wait(kv.Push(keys, {1, 2}));
  ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup);
  std::atomic<bool> called(false);
  const int last = kv.Push(keys, {1, 2}, {}, kDie, [&called] { called = true; });
  require_text(thrown_by([&] { kv.Wait(last); }, "a push to a server that ends"), "lost server",
               "Wait");
  require(!called, "the callback of a push that failed");
  // One for the request, one for the job.
  {
    std::unique_lock<std::mutex> lock(mutex);
    require(changed.wait_for(lock, std::chrono::seconds(10), [&] { return failures >= 2; }),
            "failures are told");
  }
  require_text(thrown_by([&] { kv.Push(keys, {1, 2}); }, "the next push"),
               "an earlier request failed", "Push");
  require_text(thrown_by([&] { kv.Push(keys, {1, 2}); }, "one more push"), "lost server", "Push");
  std::vector<float> got;
  require_text(thrown_by([&] { kv.Pull(keys, &got); }, "a pull"), "lost server", "Pull");
  require_text(thrown_by([&] { kv.Request(1, "", ps::kServerGroup); }, "a command"), "lost server",
               "Request");
  require_text(thrown_by([] { ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup); }, "a barrier"),
               "lost server", "Barrier");
  const std::vector<int> dead = ps::Postoffice::Get()->GetDeadNodes(60);
  require(dead.size() == 1 && dead[0] % 2 == 0, "GetDeadNodes");
}

}  // namespace

int main() {
  ps::Start(0);
  std::unique_ptr<ps::KVServer<float>> server;
  if (ps::IsServer()) {
    server.reset(new ps::KVServer<float>(0));
    server->set_request_handle(
        [](const ps::KVMeta& meta, const ps::KVPairs<float>&, ps::KVServer<float>* self) {
          // The first server; the others do not answer.
          if (meta.cmd == kDie && ps::MyRank() == 0) _exit(7);
          if (meta.cmd != kDie) self->Response(meta);
        });
  }
  if (ps::IsWorker()) work();
  require_text(thrown_by([] { ps::Finalize(0, true); }, "the end of a job that failed"), "lost ",
               "Finalize");
  // It has ended all the same.
  require_text(thrown_by([] { ps::MyRank(); }, "MyRank"), "call Start() first", "MyRank");
  return all_is_right();
}
