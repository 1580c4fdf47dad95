// What ps/ps.h and pslite.h say in a child of fork: each call fails with a text that names the
// parent, and neither a destructor nor the end of the child does anything to the parent's job.
#include <ps/ps.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "relink.h"

namespace {

const char* const kText = "this process was forked from worker 0 (pid ";

// Runs in the child, which then ends as programs do: with destructors of what is static.
void use(std::unique_ptr<ps::KVWorker<float>>& kv) {
  const std::vector<ps::Key> keys = {1};
  std::vector<float> got;
  require_text(thrown_by([&] { kv->Push(keys, {1}); }, "a push"), kText, "Push");
  require_text(thrown_by([&] { kv->Pull(keys, &got); }, "a pull"), kText, "Pull");
  require_text(thrown_by([&] { kv->Request(1, "", ps::kServerGroup); }, "a command"), kText,
               "Request");
  require_text(thrown_by([] { ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup); }, "a barrier"),
               kText, "Barrier");
  require_text(thrown_by([] { ps::Finalize(0, true); }, "the end"), kText, "Finalize");
  pslite_node* node = nullptr;
  const int status = pslite_node_new(nullptr, nullptr, &node);
  require(status == PSLITE_INVALID_ARGUMENT && !node, "a new node");
  require_text(pslite_last_error(), kText, "pslite_node_new");
  kv.reset();
  std::exit(0);
}

void work() {
  std::unique_ptr<ps::KVWorker<float>> kv(new ps::KVWorker<float>(0, 0));
  const std::vector<ps::Key> keys = {1};
  kv->Wait(kv->Push(keys, {1}));
  const pid_t child = fork();
  require(child >= 0, "fork");
  if (child == 0) use(kv);
  int status = -1;
  require(waitpid(child, &status, 0) == child && status == 0, "the end of the child");
  kv->Wait(kv->Push(keys, {1}));
  std::vector<float> got;
  kv->Wait(kv->Pull(keys, &got));
  require(got.size() == 1 && got[0] == 2, "the job goes on");
}

}  // namespace

int main() {
  ps::Start(0);
  std::unique_ptr<ps::KVServer<float>> server;
  if (ps::IsServer()) {
    server.reset(new ps::KVServer<float>(0));
    server->set_request_handle(ps::KVServerDefaultHandle<float>());
  }
  if (ps::IsWorker()) work();
  ps::Finalize(0, true);
  return all_is_right();
}
