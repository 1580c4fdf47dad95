// ps/internal/abi.h: pslite.h as the headers around it use it: failures as exceptions, arrays and
// messages both ways without a copy. Not for applications.
#ifndef PS_INTERNAL_ABI_H_
#define PS_INTERNAL_ABI_H_

#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "ps/internal/message.h"
#include "pslite.h"

namespace ps {
namespace abi {

// Throws dmlc::Error with the text of the last failure; `what` names the call.
[[noreturn]] inline void raise(const char* what) {
  throw dmlc::Error(std::string(what) + ": " + pslite_last_error());
}

inline void check(int status, const char* what) {
  if (status != PSLITE_OK) raise(what);
}

// The two values for "not set".
inline int to_abi(int number) {
  return number == static_cast<int>(Meta::kEmpty) ? PSLITE_EMPTY : number;
}
inline int from_abi(int number) {
  return number == PSLITE_EMPTY ? static_cast<int>(Meta::kEmpty) : number;
}

// Lends an array until the library has sent it. What the library copies at once needs no owner.
template <typename V>
pslite_buffer lend(const SArray<V>& array) {
  pslite_buffer buffer = {array.data(), array.size() * sizeof(V), nullptr, nullptr};
  if (buffer.size > PSLITE_COPIED) {
    buffer.release_arg = new std::shared_ptr<V>(array.ptr());
    buffer.release = [](void* owner) { delete static_cast<std::shared_ptr<V>*>(owner); };
  }
  return buffer;
}

// Says of the values that this thread sends next what they are, unless that is what the library
// takes for granted.
inline void announce(DataType type, const pslite_devices& devices) {
  if (type == OTHER && devices.src_type == CPU && devices.src_id == 0 && devices.dst_type == CPU &&
      devices.dst_id == 0) {
    return;
  }
  check(pslite_next_values(type, &devices), "pslite_next_values");
}
template <typename V>
void announce(const SArray<V>& values) {
  const pslite_devices devices = {values.src_device_type_, values.src_device_id_,
                                  values.dst_device_type_, values.dst_device_id_};
  announce(GetDataType<V>(), devices);
}
// An empty array at the devices of one that values come to. A vector is at CPU 0.
template <typename V>
SArray<V> empty_at(const SArray<V>& array) {
  return SArray<V>(nullptr, 0, array.src_device_type_, array.src_device_id_, array.dst_device_type_,
                   array.dst_device_id_);
}
template <typename V>
SArray<V> empty_at(const std::vector<V>&) {
  return SArray<V>();
}

inline pslite_meta to_abi(const Meta& meta) {
  pslite_meta out;
  std::memset(&out, 0, sizeof out);
  out.head = to_abi(meta.head);
  out.app_id = to_abi(meta.app_id);
  out.customer_id = to_abi(meta.customer_id);
  out.timestamp = to_abi(meta.timestamp);
  out.sender = to_abi(meta.sender);
  out.recver = to_abi(meta.recver);
  out.priority = meta.priority;
  out.request = meta.request;
  out.push = meta.push;
  out.pull = meta.pull;
  out.simple_app = meta.simple_app;
  out.body = meta.body.data();
  out.body_size = meta.body.size();
  return out;
}

inline void from_abi(const pslite_meta& meta, Meta* out) {
  out->head = from_abi(meta.head);
  out->app_id = from_abi(meta.app_id);
  out->customer_id = from_abi(meta.customer_id);
  out->timestamp = from_abi(meta.timestamp);
  out->sender = from_abi(meta.sender);
  out->recver = from_abi(meta.recver);
  out->priority = meta.priority;
  out->request = meta.request != 0;
  out->push = meta.push != 0;
  out->pull = meta.pull != 0;
  out->simple_app = meta.simple_app != 0;
  if (meta.body_size) out->body.assign(meta.body, meta.body_size);
}

// One array for each frame. All of them keep the message.
inline std::vector<SArray<char>> frames_of(const pslite_message* message) {
  const size_t count = pslite_message_frames(message);
  std::vector<SArray<char>> frames(count);
  if (count == 0) return frames;
  const std::shared_ptr<const pslite_message> owner(
      pslite_message_retain(message),
      [](const pslite_message* own) { pslite_message_release(own); });
  for (size_t i = 0; i < count; ++i) {
    const pslite_slice slice = pslite_message_frame(message, i);
    char* data = static_cast<char*>(const_cast<void*>(slice.data));
    // Small messages over the stock wire lie where its reader put them. Applications cast what they
    // get to numbers.
    const bool is_aligned = reinterpret_cast<uintptr_t>(data) % alignof(uint64_t) == 0;
    if (is_aligned || slice.size < alignof(uint16_t)) {
      frames[i].share(std::shared_ptr<char>(owner, data), slice.size);
    } else {
      frames[i].CopyFrom(data, slice.size);
    }
  }
  return frames;
}

inline void from_abi(const pslite_message* message, Message* out) {
  pslite_meta meta;
  pslite_message_meta(message, &meta);
  from_abi(meta, &out->meta);
  pslite_devices devices;
  pslite_message_devices(message, &devices);
  out->meta.src_dev_type = static_cast<DeviceType>(devices.src_type);
  out->meta.src_dev_id = devices.src_id;
  out->meta.dst_dev_type = static_cast<DeviceType>(devices.dst_type);
  out->meta.dst_dev_id = devices.dst_id;
  out->data = frames_of(message);
  for (SArray<char>& each : out->data) {
    each.src_device_type_ = out->meta.src_dev_type;
    each.src_device_id_ = out->meta.src_dev_id;
    each.dst_device_type_ = out->meta.dst_dev_type;
    each.dst_device_id_ = out->meta.dst_dev_id;
  }
  size_t bytes = 0;
  out->meta.data_type.reserve(out->data.size());
  for (size_t i = 0; i < out->data.size(); ++i) {
    bytes += out->data[i].size();
    out->meta.data_type.push_back(static_cast<DataType>(pslite_message_data_type(message, i)));
  }
  out->meta.data_size = static_cast<int>(bytes);
}

// The arrays of a message, lent.
inline std::vector<pslite_frame> lend(const Message& message) {
  std::vector<pslite_frame> frames(message.data.size());
  for (size_t i = 0; i < frames.size(); ++i) {
    frames[i].buffer = lend(message.data[i]);
    frames[i].data_type = i < message.meta.data_type.size() ? message.meta.data_type[i] : OTHER;
  }
  return frames;
}

// What an exception says, if it says something.
inline std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "something was thrown that is no std::exception";
  }
}

}  // namespace abi
}  // namespace ps

#endif  // PS_INTERNAL_ABI_H_
