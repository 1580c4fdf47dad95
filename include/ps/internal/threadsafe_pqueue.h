// ps/internal/threadsafe_pqueue.h: a queue of messages between threads: by priority, and first in,
// first out among equals (upstream's heap mixes those). For applications; the library has its own.
#ifndef PS_INTERNAL_THREADSAFE_PQUEUE_H_
#define PS_INTERNAL_THREADSAFE_PQUEUE_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "ps/internal/message.h"
#include "ps/internal/utils.h"

namespace ps {

class ThreadsafePQueue {
 public:
  ThreadsafePQueue() {}
  ThreadsafePQueue(const ThreadsafePQueue&) = delete;
  ThreadsafePQueue& operator=(const ThreadsafePQueue&) = delete;

  void Push(Message message) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const int priority = message.meta.priority;
      waiting_[priority].push_back(std::move(message));
    }
    changed_.notify_one();
  }

  void WaitAndPop(Message* message) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !waiting_.empty(); });
    const auto highest = waiting_.begin();
    *message = std::move(highest->second.front());
    highest->second.pop_front();
    if (highest->second.empty()) waiting_.erase(highest);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, std::deque<Message>, std::greater<int>> waiting_;
};

}  // namespace ps

#endif  // PS_INTERNAL_THREADSAFE_PQUEUE_H_
