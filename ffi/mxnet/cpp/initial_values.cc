// A key that is initialised twice in one kvstore. Two Trainers that share it do so, since both
// number their parameters from 0.
//
// MXNet's KVStoreDist::InitImpl does not look whether it has the key. (Kvstores of one process do,
// and all of them where keys are texts, as Module's are: `duplicate init of key`.) In it rank 0
// pushes the values and waits for the answer, and all others go to a barrier. The servers have the
// key, so that push is a gradient to them: with several workers it waits for theirs, which never
// come, and with one it changes weights. On the wire it is a push like any other. So the function
// itself is asked: libmxnet reaches it through vtables alone, whose entries are bound to ours, and
// ours goes on to MXNet's.
#include <stdexcept>
#include <string>
#include <vector>

#include "kvstores.h"
#include "process.h"
#include "pslite.h"
#include "wheel.h"

namespace pslite_mxnet {

namespace {

// How many workers the job has; 1 if that is not known.
int count_workers() {
  pslite_node_info info;
  return pslite_node_describe(process_node(), &info) == PSLITE_OK ? info.num_workers : 1;
}

// Throws if another `init` of a key would wait for ever. With a single worker it may be meant: the
// value is replaced where servers run no optimizer. So that is said, once for each kvstore.
void look_at_keys(const void* kvstore, const std::vector<int>& keys) {
  int key = 0;
  if (!knows_key(kvstore, keys, &key)) return;
  const std::string known =
      "key " + std::to_string(key) + " of this kvstore is initialised already";
  const std::string advice =
      "If two Trainers share the kvstore, both number their parameters from 0: give each of them "
      "the name (kvstore=\"dist_sync\"), and it has a kvstore of its own. Otherwise initialise "
      "each key once";
  if (count_workers() > 1) {
    throw std::runtime_error(
        "pslite: " + known + ". Servers would take its value for a gradient, and in dist_sync "
        "worker 0 would wait for those of the others for ever. " + advice);
  }
  if (!tell_once(kvstore)) return;
  const std::string text = known + ": its new value goes to the servers as a gradient, or in place "
                           "of the former one if they run no optimizer. " + advice;
  pslite_log(1, text.c_str());
}

}  // namespace

}  // namespace pslite_mxnet

namespace mxnet {

class NDArray;

namespace kvstore {

class KVStoreDist {
 public:
  // MXNet's own, of P3StoreDist too.
  void InitImpl(const std::vector<int>& keys, const std::vector<NDArray>& values);
};

void KVStoreDist::InitImpl(const std::vector<int>& keys, const std::vector<NDArray>& values) {
  typedef void (*Init)(KVStoreDist*, const std::vector<int>&, const std::vector<NDArray>&);
  static const Init init = reinterpret_cast<Init>(pslite_mxnet::wheel_symbol(
      "_ZN5mxnet7kvstore11KVStoreDist8InitImplERKSt6vectorIiSaIiEERKS2_INS_7NDArrayESaIS7_EE"));
  if (!init) throw std::runtime_error("pslite: MXNet's KVStoreDist::InitImpl is not found");
  // A fork may use no kvstore; the node says so.
  if (pslite_mxnet::is_forked()) return init(this, keys, values);
  pslite_mxnet::look_at_keys(this, keys);
  // In it MXNet asks for the customer, which tells whose code this thread is in.
  pslite_mxnet::in_kvstore(nullptr);
  init(this, keys, values);
  pslite_mxnet::remember_keys(this, keys);
}

}  // namespace kvstore
}  // namespace mxnet
