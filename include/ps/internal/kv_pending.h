// ps/internal/kv_pending.h: a request of a KVWorker until its end: its callback, what it failed of,
// and where the values go that come. Not for applications.
#ifndef PS_INTERNAL_KV_PENDING_H_
#define PS_INTERNAL_KV_PENDING_H_

#include <atomic>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ps/internal/abi.h"
#include "ps/internal/van.h"
#include "ps/sarray.h"

namespace ps {

namespace abi {

// Makes an empty array of the caller's fit. Throws if there is no memory.
template <typename V>
V* make_fit(SArray<V>* array, size_t count) {
  array->reset(new V[count], count, [](V* own) { delete[] own; });
  return array->data();
}
template <typename V>
V* make_fit(std::vector<V>* array, size_t count) {
  array->resize(count);
  return array->data();
}

// What holds an array's memory while a request needs it: a reference for an SArray; nothing for a
// vector, whose owner keeps it.
template <typename Array>
struct Hold;
template <typename V>
struct Hold<SArray<V>> {
  typedef V Element;
  SArray<V> array;
  explicit Hold(const SArray<V>& from) : array(from) {}
};
template <typename V>
struct Hold<std::vector<V>> {
  typedef V Element;
  explicit Hold(const std::vector<V>&) {}
};

// An array that an answer goes into. The caller's object is looked at later only if it is empty at
// the call, since it must then be made to fit; else it may go out of scope before the request ends.
template <typename Array>
class Target {
 public:
  typedef typename Hold<Array>::Element Element;

  explicit Target(Array* array)
      : hold_(*array),
        empty_(array->empty() ? array : nullptr),
        data_(array->data()),
        size_(array->size()) {}

  bool empty() const { return empty_ != nullptr; }
  Element* data() const { return data_; }
  size_t size() const { return size_; }

  // The memory for `bytes` bytes of an answer; null if they do not fit. A larger array is fine if
  // the caller gets to know how much of it came. Nothing is thrown: the library calls this.
  void* place(size_t bytes, bool may_be_larger) noexcept {
    const size_t count = bytes / sizeof(Element);
    if (bytes % sizeof(Element) != 0) return nullptr;
    if (empty_ && count > 0) return fill(count, may_be_larger);
    return fits(count, size_, may_be_larger) ? data_ : nullptr;
  }

 private:
  static bool fits(size_t count, size_t size, bool may_be_larger) {
    return count == size || (may_be_larger && count < size);
  }

  void* fill(size_t count, bool may_be_larger) noexcept {
    // Who filled it meanwhile finds the values there.
    if (!empty_->empty())
      return fits(count, empty_->size(), may_be_larger) ? empty_->data() : nullptr;
    try {
      return make_fit(empty_, count);
    } catch (...) {
      return nullptr;
    }
  }

  const Hold<Array> hold_;
  Array* const empty_;
  Element* const data_;
  const size_t size_;
};

// Failures of requests that nobody may ever wait for: the next request of the same worker throws
// them.
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

  // The call that made the request is over; one that failed has no end (pslite_done_fn).
  void settle(int status, const char* what) {
    const std::string reason = status == PSLITE_OK ? std::string() : pslite_last_error();
    if (status != PSLITE_OK) drop();
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
  std::atomic<int> owners_{2};
};

// A request that brings values, and perhaps lens, into arrays of the caller.
template <typename Vals, typename Lens>
struct PendingPull : public Pending {
  PendingPull(Vals* vals, Lens* lens, const std::function<void()>& callback,
              const std::shared_ptr<Untold>& untold, Van* van)
      : Pending(callback, untold, van),
        vals_(vals),
        lens_(lens ? new Target<Lens>(lens) : nullptr) {}

  pslite_destination destination() {
    pslite_destination into;
    std::memset(&into, 0, sizeof into);
    into.place_vals = place_vals;
    into.place_lens = lens_ ? place_lens : nullptr;
    into.arg = this;
    // What is empty is made to fit when the values are here.
    if (!vals_.empty()) {
      into.vals = vals_.data();
      into.vals_bytes = vals_.size() * sizeof(*vals_.data());
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
    return self->vals_.place(bytes, true);
#else
    return self->vals_.place(bytes, self->lens_ != nullptr);
#endif
  }
  static void* place_lens(void* arg, size_t bytes) noexcept {
    return static_cast<PendingPull*>(arg)->lens_->place(bytes, false);
  }

  Target<Vals> vals_;
  const std::unique_ptr<Target<Lens>> lens_;
};

}  // namespace abi

}  // namespace ps

#endif  // PS_INTERNAL_KV_PENDING_H_
