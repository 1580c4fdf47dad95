// ps/internal/kv_pending.h: a request of a KVWorker until its end: its callback, what it failed of, and where the values
// go that come. Not for applications.
#ifndef PS_INTERNAL_KV_PENDING_H_
#define PS_INTERNAL_KV_PENDING_H_

#include <atomic>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "ps/internal/abi.h"
#include "ps/internal/van.h"
#include "ps/sarray.h"

namespace ps {

namespace abi {

// The caller's memory for `bytes` bytes of an answer; null if they do not fit. An empty array is made to fit. A larger
// one is fine if the caller gets to know how much of it came.
template <typename V, typename Resize>
void* place(Resize resize, V* data, size_t size, size_t bytes, bool may_be_larger) {
  const size_t count = bytes / sizeof(V);
  if (bytes % sizeof(V) != 0) return nullptr;
  if (size == 0 && count > 0) return resize(count);
  return count == size || (may_be_larger && count < size) ? data : nullptr;
}
template <typename V>
void* place(SArray<V>* array, size_t bytes, bool may_be_larger) {
  const auto resize = [array](size_t count) -> V* {
    V* memory = new (std::nothrow) V[count];
    if (memory) array->reset(memory, count, [](V* own) { delete[] own; });
    return memory;
  };
  return place<V>(resize, array->data(), array->size(), bytes, may_be_larger);
}
template <typename V>
void* place(std::vector<V>* array, size_t bytes, bool may_be_larger) {
  const auto resize = [array](size_t count) -> V* {
    try {
      array->resize(count);
    } catch (const std::exception&) {
      return nullptr;
    }
    return array->data();
  };
  return place<V>(resize, array->data(), array->size(), bytes, may_be_larger);
}

// Failures of requests that nobody may ever wait for: the next request of the same worker throws them.
struct Untold {
  std::mutex mutex;
  std::string text;
  std::atomic<bool> is_set{false};

  void set(const std::string& reason) {
    std::lock_guard<std::mutex> lock(mutex);
    if (!is_set) text = reason;
    is_set = true;
  }
  void raise() {
    if (!is_set) return;
    std::lock_guard<std::mutex> lock(mutex);
    is_set = false;
    throw dmlc::Error("an earlier request failed: " + text);
  }
};

// What a request needs at its end. Two owners: the call that makes the request, and its end.
struct Pending {
  Pending(const std::function<void()>& callback, const std::shared_ptr<Untold>& untold, Van* van)
      : callback_(callback), untold_(untold), van_(van) {}
  virtual ~Pending() {}

  static void ended(void* arg, int status, const char* error) noexcept {
    Pending* self = static_cast<Pending*>(arg);
    self->has_ended_ = true;
    if (status == PSLITE_OK) {
      self->succeed();
    } else {
      self->fail(status, error ? error : "the request failed");
    }
    self->drop();
  }

  void drop() {
    if (owners_.fetch_sub(1) == 1) delete this;
  }

  // The call that made the request is over; one that failed has no end, unless it came before.
  void settle(int status, const char* what) {
    const std::string reason = status == PSLITE_OK ? std::string() : pslite_last_error();
    if (status != PSLITE_OK && !has_ended_) drop();
    drop();
    if (status != PSLITE_OK) throw dmlc::Error(std::string(what) + ": " + reason);
  }

 private:
  void succeed() {
    if (!callback_) return;
    try {
      callback_();
    } catch (...) {
      const std::string text = "a callback has thrown: " + text_of(std::current_exception());
      pslite_log(0, text.c_str());
      untold_->set(text);
    }
  }

  // The callback says that all went well, so it is not called.
  void fail(int status, const char* error) {
    if (!callback_) return;
    pslite_log(0, error);
    untold_->set(error);
    van_->tell_failure(status, error);
  }

  const std::function<void()> callback_;
  const std::shared_ptr<Untold> untold_;
  Van* const van_;
  std::atomic<bool> has_ended_{false};
  std::atomic<int> owners_{2};
};

// A request that brings values, and perhaps lens, into arrays of the caller.
template <typename Vals, typename Lens>
struct PendingPull : public Pending {
  PendingPull(Vals* vals, Lens* lens, const std::function<void()>& callback, const std::shared_ptr<Untold>& untold,
              Van* van)
      : Pending(callback, untold, van), vals_(vals), lens_(lens) {}

  pslite_destination destination() {
    pslite_destination into;
    std::memset(&into, 0, sizeof into);
    into.place_vals = place_vals;
    into.place_lens = lens_ ? place_lens : nullptr;
    into.arg = this;
    // What is empty is made to fit when the values are here.
    if (!vals_->empty()) {
      into.vals = vals_->data();
      into.vals_bytes = vals_->size() * sizeof(*vals_->data());
    }
    if (lens_ && !lens_->empty()) {
      into.lens = lens_->data();
      into.lens_count = lens_->size();
    }
    return into;
  }

 private:
  static void* place_vals(void* arg, size_t bytes) noexcept {
    PendingPull* self = static_cast<PendingPull*>(arg);
#ifdef PSLITE_DIALECT_BYTEPS
    return place(self->vals_, bytes, true);
#else
    return place(self->vals_, bytes, self->lens_ != nullptr);
#endif
  }
  static void* place_lens(void* arg, size_t bytes) noexcept {
    return place(static_cast<PendingPull*>(arg)->lens_, bytes, false);
  }

  Vals* const vals_;
  Lens* const lens_;
};

}  // namespace abi

}  // namespace ps

#endif  // PS_INTERNAL_KV_PENDING_H_
