// ps/internal/kv_pairs.h: keys and values, as requests and answers have them.
#ifndef PS_INTERNAL_KV_PAIRS_H_
#define PS_INTERNAL_KV_PAIRS_H_

#include "ps/base.h"
#include "ps/internal/abi.h"
#include "ps/sarray.h"

namespace ps {

// Keys with their values. lens: how many values each key has; empty: all have equally many.
template <typename Val>
struct KVPairs {
  SArray<Key> keys;
  SArray<Val> vals;
  SArray<int> lens;
  // Higher goes first.
  int priority = 0;
};

namespace abi {

template <typename Val>
pslite_kv lend(const KVPairs<Val>& kvs) {
  const pslite_kv kv = {lend(kvs.keys), lend(kvs.vals), lend(kvs.lens)};
  return kv;
}

}  // namespace abi

}  // namespace ps

#endif  // PS_INTERNAL_KV_PAIRS_H_
