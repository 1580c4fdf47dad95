// ps/sarray.h: arrays that share their memory.
#ifndef PS_SARRAY_H_
#define PS_SARRAY_H_

#include <string.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "ps/internal/utils.h"
#include "ps/range.h"

namespace ps {

// Where an array lies (BytePS). pslite moves bytes of the host's memory only; these are for the
// application.
enum DeviceType { UNK, CPU, GPU };

// An array whose copies, casts and segments share one piece of memory, which is freed with the last
// of them.
template <typename V>
class SArray {
 public:
  SArray() {}
  ~SArray() {}
  SArray(const SArray&) = default;
  SArray(SArray&&) = default;
  SArray& operator=(const SArray&) = default;
  SArray& operator=(SArray&&) = default;

  // `size` elements of that value.
  explicit SArray(size_t size, V value = 0) { resize(size, value); }

  // The same memory, seen as elements of another type; its bytes must be a whole number of them.
  template <typename W>
  explicit SArray(const SArray<W>& other) {
    *this = other;
  }
  template <typename W>
  void operator=(const SArray<W>& other) {
    CHECK_EQ(other.size() * sizeof(W) % sizeof(V), 0U) << "cannot be divided";
    size_ = other.size() * sizeof(W) / sizeof(V);
    capacity_ = other.capacity() * sizeof(W) / sizeof(V);
    ptr_ = std::shared_ptr<V>(other.ptr(), reinterpret_cast<V*>(other.data()));
    take_devices(other);
  }

  // Memory of the caller, not copied. deletable: it came from new[] and is freed with the last
  // owner; else the caller keeps it until nobody uses the array, nor the library what was sent from
  // it.
  SArray(V* data, size_t size, bool deletable = false) { lend(data, size, deletable); }
  SArray(V* data, size_t size, DeviceType src_device_type, int src_device_id,
         DeviceType dst_device_type, int dst_device_id, bool deletable = false) {
    lend(data, size, deletable);
    set_devices(src_device_type, src_device_id, dst_device_type, dst_device_id);
  }

  // A copy.
  explicit SArray(const std::vector<V>& values) { CopyFrom(values.data(), values.size()); }
  template <typename W>
  SArray(const std::initializer_list<W>& values) {
    CopyFrom(values.begin(), values.end());
  }
  template <typename W>
  void operator=(const std::initializer_list<W>& values) {
    CopyFrom(values.begin(), values.end());
  }

  // The vector's own memory, which is kept; it must not be resized.
  explicit SArray(const std::shared_ptr<std::vector<V>>& values) {
    size_ = capacity_ = values->size();
    ptr_ = std::shared_ptr<V>(values, values->data());
  }

  void CopyFrom(const V* from, size_t size) {
    resize(size);
    std::copy(from, from + size, data());
  }
  void CopyFrom(const SArray<V>& other) {
    if (this != &other) CopyFrom(other.data(), other.size());
  }
  template <typename It>
  void CopyFrom(const It first, const It last) {
    resize(static_cast<size_t>(std::distance(first, last)));
    V* to = data();
    for (It it = first; it != last; ++it) *to++ = static_cast<V>(*it);
  }

  // Other memory; `del` frees it.
  template <typename Deleter>
  void reset(V* data, size_t size, Deleter del, DeviceType src_device_type = CPU,
             int src_device_id = 0, DeviceType dst_device_type = CPU, int dst_device_id = 0) {
    size_ = capacity_ = size;
    ptr_.reset(data, del);
    set_devices(src_device_type, src_device_id, dst_device_type, dst_device_id);
  }

  // Memory that somebody owns already.
  void share(const std::shared_ptr<V>& memory, size_t size) {
    size_ = capacity_ = size;
    ptr_ = memory;
  }

  // Within the capacity in place, which all who share the memory see; else in new memory. New
  // elements get `value`.
  void resize(size_t size, V value = 0) {
    const size_t before = size_;
    if (capacity_ < size) reserve_exactly(size + 5);
    size_ = size;
    if (size > before) std::fill(data() + before, data() + size, value);
  }
  void reserve(size_t size) {
    if (capacity_ < size) reserve_exactly(size);
  }

  // Forgets the memory; others who share it keep it.
  void clear() {
    size_ = capacity_ = 0;
    ptr_.reset();
  }

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }

  V* begin() { return data(); }
  const V* begin() const { return data(); }
  V* end() { return data() + size_; }
  const V* end() const { return data() + size_; }
  V* data() const { return ptr_.get(); }

  std::shared_ptr<V>& ptr() { return ptr_; }
  const std::shared_ptr<V>& ptr() const { return ptr_; }

  V back() const {
    CHECK(!empty());
    return data()[size_ - 1];
  }
  V front() const {
    CHECK(!empty());
    return data()[0];
  }
  V& operator[](int i) { return data()[i]; }
  const V& operator[](int i) const { return data()[i]; }

  void push_back(const V& value) {
    const V copy = value;  // It may be an element of this very array.
    if (size_ == capacity_) reserve(size_ * 2 + 5);
    data()[size_++] = copy;
  }
  void pop_back() {
    if (size_) --size_;
  }
  void append(const SArray<V>& other) {
    if (other.empty()) return;
    const SArray<V> from = other;
    const size_t before = size_;
    resize(size_ + from.size());
    std::copy(from.data(), from.data() + from.size(), data() + before);
  }

  // Elements from `begin` to `end`, without `end`, of the same memory.
  SArray<V> segment(size_t begin, size_t end) const {
    CHECK_GE(end, begin);
    CHECK_LE(end, size());
    SArray<V> part;
    part.ptr_ = std::shared_ptr<V>(ptr_, data() + begin);
    part.size_ = part.capacity_ = end - begin;
    part.take_devices(*this);
    return part;
  }

  std::string DebugString() const {
    std::ostringstream text;
    text << "size=" << size_ << " capacity=" << capacity_ << " src=" << name_of(src_device_type_)
         << "[" << src_device_id_ << "] dst=" << name_of(dst_device_type_) << "[" << dst_device_id_
         << "]";
    return text.str();
  }

  DeviceType src_device_type_ = CPU;
  int src_device_id_ = 0;
  DeviceType dst_device_type_ = CPU;
  int dst_device_id_ = 0;

 private:
  void lend(V* data, size_t size, bool deletable) {
    size_ = capacity_ = size;
    if (deletable) {
      ptr_.reset(data, [](V* memory) { delete[] memory; });
    } else {
      ptr_.reset(data, [](V*) {});
    }
  }

  void reserve_exactly(size_t capacity) {
    V* memory = new V[capacity];
    std::copy(data(), data() + size_, memory);
    ptr_.reset(memory, [](V* own) { delete[] own; });
    capacity_ = capacity;
  }

  static const char* name_of(DeviceType type) {
    return type == CPU ? "CPU" : type == GPU ? "GPU" : "UNK";
  }

  template <typename W>
  void take_devices(const SArray<W>& other) {
    set_devices(other.src_device_type_, other.src_device_id_, other.dst_device_type_,
                other.dst_device_id_);
  }
  void set_devices(DeviceType src_type, int src_id, DeviceType dst_type, int dst_id) {
    src_device_type_ = src_type;
    src_device_id_ = src_id;
    dst_device_type_ = dst_type;
    dst_device_id_ = dst_id;
  }

  size_t size_ = 0;
  size_t capacity_ = 0;
  std::shared_ptr<V> ptr_;
};

// The indices of the elements from `lower` to `upper`, without `upper`, in a sorted array.
template <typename V>
Range FindRange(const SArray<V>& sorted, V lower, V upper) {
  if (upper <= lower) return Range(0, 0);
  const V* first = std::lower_bound(sorted.begin(), sorted.end(), lower);
  const V* last = std::lower_bound(first, sorted.end(), upper);
  return Range(static_cast<uint64_t>(first - sorted.begin()),
               static_cast<uint64_t>(last - sorted.begin()));
}

// The first and last `m` of `n` elements, as text.
template <typename V>
inline std::string DebugStr(const V* data, int n, int m = 5) {
  std::ostringstream text;
  text << "[" << n << "]: ";
  const bool is_long = n >= 2 * m;
  for (int i = 0; i < (is_long ? m : n); ++i) text << data[i] << " ";
  if (is_long) {
    text << "... ";
    for (int i = n - m; i < n; ++i) text << data[i] << " ";
  }
  return text.str();
}

template <typename V>
std::ostream& operator<<(std::ostream& stream, const SArray<V>& array) {
  return stream << DebugStr(array.data(), static_cast<int>(array.size()));
}

}  // namespace ps

#endif  // PS_SARRAY_H_
