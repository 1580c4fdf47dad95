// A program on the interface of ps-lite, as it is written for upstream: servers that add, workers
// that push and pull. C++11. Prints "sums are right" in each worker.

#include <ps/ps.h>

#include <cstdio>
#include <vector>

int main() {
  const int rounds = 20;
  const bool is_server = ps::IsServer();
  ps::KVServer<float>* server = nullptr;
  if (is_server) {
    server = new ps::KVServer<float>(0);
    server->set_request_handle(ps::KVServerDefaultHandle<float>());
  }
  ps::Start(0);

  bool is_right = true;
  if (!is_server && !ps::IsScheduler()) {
    ps::KVWorker<float> worker(0, 0);
    const int count = 1000;
    std::vector<ps::Key> keys(count);
    std::vector<float> values(count), sums;
    for (int i = 0; i < count; ++i) {
      keys[i] = ps::kMaxKey / count * i;
      values[i] = static_cast<float>(i % 17);
    }
    for (int round = 0; round < rounds; ++round) worker.Wait(worker.Push(keys, values));
    ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup);
    worker.Wait(worker.Pull(keys, &sums));
    is_right = sums.size() == values.size();
    for (int i = 0; is_right && i < count; ++i)
      is_right = sums[i] == values[i] * rounds * ps::NumWorkers();
    std::puts(is_right ? "sums are right" : "sums are wrong");
  }
  ps::Finalize(0, true);
  delete server;
  return is_right ? 0 : 1;
}
