// arrays.h: ps::SArray and the C ABI's buffers, both ways, without a copy.
#ifndef PSLITE_MXNET_ARRAYS_H_
#define PSLITE_MXNET_ARRAYS_H_

#include <new>

#include "layout.h"

namespace ps {

// Lends an array to the library, which keeps it alive until it is sent. What the library copies at
// once needs no owner.
template <typename V>
pslite_buffer lend(const SArray<V>& array) {
  pslite_buffer buffer = {array.ptr_.get(), array.bytes(), nullptr, nullptr};
  if (buffer.size > PSLITE_COPIED) {
    buffer.release_arg = new std::shared_ptr<V>(array.ptr_);
    buffer.release = [](void* owner) { delete static_cast<std::shared_ptr<V>*>(owner); };
  }
  return buffer;
}

inline pslite_kv lend(const KVPairs<char>& kvs) {
  pslite_kv kv = {lend(kvs.keys), lend(kvs.vals), lend(kvs.lens)};
  return kv;
}

// A frame of a received message as an array that keeps the message.
template <typename V>
SArray<V> borrow(const pslite_message* message, size_t i) {
  SArray<V> array;
  const pslite_slice slice = pslite_message_frame(message, i);
  array.size_ = array.capacity_ = slice.size / sizeof(V);
  pslite_message_retain(message);
  array.ptr_.reset(static_cast<V*>(const_cast<void*>(slice.data)),
                   [message](V*) { pslite_message_release(message); });
  return array;
}

// Room for `bytes` in an array of the caller, or null. The rule of kv_app.h:695: an empty array is
// made to fit, any other must fit.
template <typename V>
void* place(SArray<V>* array, size_t bytes) {
  const size_t size = bytes / sizeof(V);
  if (bytes % sizeof(V)) return nullptr;
  if (array->size_ == 0 && size > 0) {
    V* data = new (std::nothrow) V[size];
    if (!data) return nullptr;
    array->ptr_.reset(data, [](V* p) { delete[] p; });
    array->size_ = array->capacity_ = size;
  }
  return array->size_ == size ? array->ptr_.get() : nullptr;
}

}  // namespace ps

#endif  // PSLITE_MXNET_ARRAYS_H_
