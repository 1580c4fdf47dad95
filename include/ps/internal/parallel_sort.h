// ps/internal/parallel_sort.h: sorts by several threads.
#ifndef PS_INTERNAL_PARALLEL_SORT_H_
#define PS_INTERNAL_PARALLEL_SORT_H_

#include <algorithm>
#include <cstddef>
#include <functional>
#include <thread>

#include "ps/sarray.h"

namespace ps {

// Parts of at most `grain` elements are sorted each by one thread, then merged. What `cmp` throws
// ends the process.
template <typename T, class Fn>
void ParallelSort(T* data, size_t size, size_t grain, const Fn& cmp) {
  if (size <= grain || size < 2) {
    std::sort(data, data + size, cmp);
    return;
  }
  T* const middle = data + size / 2;
  std::thread first([=, &cmp] { ParallelSort(data, size / 2, grain, cmp); });
  ParallelSort(middle, size - size / 2, grain, cmp);
  first.join();
  std::inplace_merge(data, middle, data + size, cmp);
}

// In place.
template <typename T, class Fn>
void ParallelSort(SArray<T>* array, int num_threads, const Fn& cmp) {
  CHECK_GT(num_threads, 0);
  const size_t share = array->size() / static_cast<size_t>(num_threads) + 5;
  // Less is not worth a thread.
  const size_t grain = std::max(share, static_cast<size_t>(16 << 10));
  ParallelSort(array->data(), array->size(), grain, cmp);
}
template <typename T>
void ParallelSort(SArray<T>* array, int num_threads = 2) {
  ParallelSort(array, num_threads, std::less<T>());
}

}  // namespace ps

#endif  // PS_INTERNAL_PARALLEL_SORT_H_
