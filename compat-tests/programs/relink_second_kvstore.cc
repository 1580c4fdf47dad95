// A second kvstore of MXNet in one process, and other further KVWorkers, whose keys are the same
// numbers. Run with an argument:
//
//   mxnet   what MXNet's KVStoreDist (kvstore_dist.h, 1.9.1) does when a second one is made
//   shared  further KVWorkers whose arrays are those of the first
//   own     further KVWorkers with keys of their own, at pslite's store
#include <ps/ps.h>

#include <memory>
#include <string>
#include <vector>

#include "relink.h"

namespace {

const int kAll = ps::kWorkerGroup + ps::kServerGroup + ps::kScheduler;
// What ends pslite's store, as MXNet's server.
const int kStopServer = 2;
// How MXNet pairs a whole array and float32.
const int kFloats = 0;
const uint64_t kKey = 3;

void push(ps::KVWorker<char>* kv, float value) {
  const ps::SArray<float> values(2, value);
  kv->Wait(kv->ZPush({kKey}, ps::SArray<char>(values), {8}, kFloats));
}

float pull(ps::KVWorker<char>* kv) {
  ps::SArray<char> got;
  ps::SArray<int> lens;
  kv->Wait(kv->ZPull({kKey}, &got, &lens, kFloats));
  require_equal(got.size(), 2 * sizeof(float), "how much was pulled");
  return ps::SArray<float>(got)[1];
}

void second_of_mxnet() {
  ps::KVWorker<char> second(0, 1);
  const std::string text =
      thrown_by([] { ps::StartAsync(1, "mxnet\0"); }, "a second kvstore of MXNet");
  require_text(text, "a second kvstore of this process (customer 1)", "why it is refused");
}

void further(ps::KVWorker<char>* first, bool own) {
  ps::KVWorker<char> second(0, 1);
  // It registers, as a customer of any program may.
  ps::StartAsync(1, "a program");
  if (own) ps::abi::check(pslite_worker_own_keys(second.get_customer()->handle()), "own keys");
  push(first, 5);
  if (own) push(&second, 7);
  require_equal(pull(first), 5, "what the first has");
  require_equal(pull(&second), own ? 7 : 5, "what the second has");
  first->Wait(first->Request(kStopServer, "", ps::kServerGroup));
}

}  // namespace

int main(int argc, char** argv) {
  require(argc == 2, "one argument");
  const std::string mode = argv[1];
  std::unique_ptr<ps::KVServer<float>> server;
  std::unique_ptr<ps::KVWorker<char>> first;
  if (ps::IsServer()) {
    server.reset(new ps::KVServer<float>(0));
    server->set_request_handle(ps::KVServerDefaultHandle<float>());
  }
  if (ps::IsWorker()) first.reset(new ps::KVWorker<char>(0, 0));
  ps::StartAsync(0, "mxnet\0");
  ps::Postoffice::Get()->Barrier(0, kAll);
  if (ps::IsWorker()) {
    if (mode == "mxnet") {
      second_of_mxnet();
    } else {
      further(first.get(), mode == "own");
    }
  }
  ps::Finalize(0, true);
  return all_is_right();
}
