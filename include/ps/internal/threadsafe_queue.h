// ps/internal/threadsafe_queue.h: a queue between threads, first in, first out. For applications;
// the library has its own.
#ifndef PS_INTERNAL_THREADSAFE_QUEUE_H_
#define PS_INTERNAL_THREADSAFE_QUEUE_H_

#include <condition_variable>
#include <mutex>
#include <queue>
#include <utility>

#include "ps/internal/utils.h"

namespace ps {

template <typename T>
class ThreadsafeQueue {
 public:
  ThreadsafeQueue() {}
  ThreadsafeQueue(const ThreadsafeQueue&) = delete;
  ThreadsafeQueue& operator=(const ThreadsafeQueue&) = delete;

  void Push(T value) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      queue_.push(std::move(value));
    }
    changed_.notify_one();
  }

  void WaitAndPop(T* value) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !queue_.empty(); });
    *value = std::move(queue_.front());
    queue_.pop();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::queue<T> queue_;
};

}  // namespace ps

#endif  // PS_INTERNAL_THREADSAFE_QUEUE_H_
