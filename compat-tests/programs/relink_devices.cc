// What travels of an array besides its bytes: where it lies, where its sender wants it to lie, and
// what its elements are.
//
// With -DSTOCK for the ps-lite of BytePS's later releases, which shows no types: nodes of both make
// one job together (docs/relink.md, "BytePS").
#include <ps/ps.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "relink.h"

namespace {

// A worker's values of key k: GPU 2, wanted at GPU k. Key 0: nothing is said, CPU 0.
ps::SArray<float> array_of(ps::Key key, float* values, size_t size) {
  if (key == 0) return ps::SArray<float>(values, size, false);
  return ps::SArray<float>(values, size, ps::GPU, 2, key % 2 ? ps::GPU : ps::CPU,
                           static_cast<int>(key), false);
}

void require_devices(ps::Key key, const ps::SArray<float>& values) {
  const ps::SArray<float> wanted = array_of(key, nullptr, 0);
  require_equal(static_cast<int>(values.src_device_type_), wanted.src_device_type_,
                "the sender's kind");
  require_equal(values.src_device_id_, wanted.src_device_id_, "the sender's number");
  require_equal(static_cast<int>(values.dst_device_type_), wanted.dst_device_type_,
                "the receiver's kind");
  require_equal(values.dst_device_id_, wanted.dst_device_id_, "the receiver's number");
}

#ifdef STOCK
typedef ps::KVServer<float> Server;
#else
class Server : public ps::KVServer<float> {
 public:
  using ps::KVServer<float>::KVServer;

 protected:
  void Process(const ps::Message& message) override {
    require(message.meta.data_type.size() >= 2, "a type for each array");
    require_equal(static_cast<int>(message.meta.data_type[0]), ps::UINT64, "the type of the keys");
    require_equal(static_cast<int>(message.meta.data_type[1]), ps::FLOAT, "the type of the values");
    const ps::SArray<float> wanted = array_of(ps::SArray<ps::Key>(message.data[0])[0], nullptr, 0);
    require_equal(static_cast<int>(message.meta.src_dev_type), wanted.src_device_type_,
                  "the metadata's kind");
    require_equal(message.meta.dst_dev_id, wanted.dst_device_id_, "the metadata's number");
    ps::KVServer<float>::Process(message);
  }
};
#endif

void serve(const ps::KVMeta& meta, const ps::KVPairs<float>& data, ps::KVServer<float>* server) {
  static std::mutex mutex;
  static std::map<ps::Key, std::vector<float>> store;
  require_equal(data.keys.size(), static_cast<size_t>(1), "keys");
  const ps::Key key = data.keys[0];
  // A pull says where its values are to go.
  require_devices(key, data.vals);
  ps::KVPairs<float> answer;
  std::lock_guard<std::mutex> lock(mutex);
  if (meta.push) {
    store[key].assign(data.vals.begin(), data.vals.end());
  } else {
    answer.keys = data.keys;
    answer.vals.CopyFrom(store[key].data(), store[key].size());
    answer.lens = {static_cast<int>(store[key].size())};
  }
  server->Response(meta, answer);
}

void work() {
  ps::KVWorker<float> kv(0, 0);
  // Small ones, and some that are received where they belong.
  for (const size_t size : {3, 30000}) {
    for (ps::Key key = 0; key < 4; ++key) {
      std::vector<float> values(size, 0.5f + static_cast<float>(key)), back(size);
      const ps::SArray<ps::Key> keys = {key};
      ps::SArray<int> lens = {static_cast<int>(size)};
      kv.Wait(kv.ZPush(keys, array_of(key, values.data(), size), lens));
      ps::SArray<float> into = array_of(key, back.data(), size);
      kv.Wait(kv.ZPull(keys, &into, &lens));
      require(back == values, "the values");
      // The caller's array is as it was.
      require_devices(key, into);
    }
  }
}

}  // namespace

int main() {
  const ps::Node::Role role = ps::GetRole(ps::Environment::Get()->find("DMLC_ROLE"));
  std::unique_ptr<Server> server;
  if (role == ps::Node::SERVER) {
    ps::StartPS(0, role, -1, false, "devices\0");
    server.reset(new Server(0));
    server->set_request_handle(serve);
    ps::Postoffice::GetServer()->Barrier(0, ps::kWorkerGroup + ps::kServerGroup + ps::kScheduler);
  } else {
    ps::StartPS(0, role, -1, false, "devices\0");
    ps::Postoffice* const office =
        role == ps::Node::WORKER ? ps::Postoffice::GetWorker() : ps::Postoffice::GetScheduler();
    office->Barrier(0, ps::kWorkerGroup + ps::kServerGroup + ps::kScheduler);
    if (role == ps::Node::WORKER) work();
  }
  ps::Finalize(0, role, true);
  return all_is_right();
}
