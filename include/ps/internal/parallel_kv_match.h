// ps/internal/parallel_kv_match.h: puts the values of one sorted list of keys to the same keys of
// another, by several threads.
#ifndef PS_INTERNAL_PARALLEL_KV_MATCH_H_
#define PS_INTERNAL_PARALLEL_KV_MATCH_H_

#include <algorithm>
#include <cstddef>
#include <thread>
#include <type_traits>

#include "ps/internal/assign_op.h"
#include "ps/range.h"
#include "ps/sarray.h"

namespace ps {

namespace abi {

template <typename V>
void assign(const V& lhs, AssignOp op, V* rhs, std::true_type) {
  AssignFuncInt(lhs, op, rhs);
}
template <typename V>
void assign(const V& lhs, AssignOp op, V* rhs, std::false_type) {
  AssignFunc(lhs, op, rhs);
}

// The values that were assigned. Parts of at most `grain` keys are each one thread's.
template <typename K, typename V>
size_t match(const K* src_key, const K* src_end, const V* src_val, const K* dst_key,
             const K* dst_end, V* dst_val, size_t k, AssignOp op, size_t grain) {
  if (dst_key == dst_end) return 0;
  const K* const first = std::lower_bound(src_key, src_end, *dst_key);
  src_val += static_cast<size_t>(first - src_key) * k;
  src_key = first;
  const size_t keys = static_cast<size_t>(dst_end - dst_key);
  if (keys > grain) {
    const K* const middle = dst_key + keys / 2;
    size_t before = 0;
    std::thread thread([&, src_key, src_val] {
      before = match(src_key, src_end, src_val, dst_key, middle, dst_val, k, op, grain);
    });
    const size_t behind =
        match(src_key, src_end, src_val, middle, dst_end, dst_val + keys / 2 * k, k, op, grain);
    thread.join();
    return before + behind;
  }
  size_t assigned = 0;
  while (dst_key != dst_end && src_key != src_end) {
    if (*src_key < *dst_key) {
      ++src_key;
      src_val += k;
      continue;
    }
    if (!(*dst_key < *src_key)) {
      for (size_t i = 0; i < k; ++i) assign(src_val[i], op, dst_val + i, std::is_integral<V>());
      assigned += k;
      ++src_key;
      src_val += k;
    }
    ++dst_key;
    dst_val += k;
  }
  return assigned;
}

}  // namespace abi

// Both lists of keys are sorted and have `k` values for each key. dst_val (an SArray or a vector of
// V) is made to fit; values of keys that are in both become `dst op= src`. The number of values
// that were assigned.
template <typename K, typename V, typename C>
size_t ParallelOrderedMatch(const SArray<K>& src_key, const SArray<V>& src_val,
                            const SArray<K>& dst_key, C* dst_val, int k = 1, AssignOp op = ASSIGN,
                            int num_threads = 1) {
  CHECK_GT(num_threads, 0);
  CHECK_GT(k, 0);
  CHECK(dst_val) << "there is no array for the values";
  // A thread for a wrong operation would end the process.
  CHECK(op < AND || std::is_integral<V>::value) << "operations on bits are for integers";
  const size_t each = static_cast<size_t>(k);
  CHECK_EQ(src_key.size() * each, src_val.size());
  dst_val->resize(dst_key.size() * each);
  const size_t share = dst_key.size() / static_cast<size_t>(num_threads) + 5;
  // Less is not worth a thread.
  const size_t grain = std::max(share, static_cast<size_t>(1 << 20) / each + 1);
  return abi::match(src_key.begin(), src_key.end(), src_val.begin(), dst_key.begin(), dst_key.end(),
                    dst_val->data(), each, op, grain);
}

}  // namespace ps

#endif  // PS_INTERNAL_PARALLEL_KV_MATCH_H_
