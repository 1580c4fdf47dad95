// ps/internal/message.h: messages and nodes as applications see them. Fields that only one of
// upstream and BytePS's ps-lite has are there for both.
#ifndef PS_INTERNAL_MESSAGE_H_
#define PS_INTERNAL_MESSAGE_H_

#include <array>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "ps/internal/utils.h"
#include "ps/sarray.h"

namespace ps {

enum DataType {
  CHAR,
  INT8,
  INT16,
  INT32,
  INT64,
  UINT8,
  UINT16,
  UINT32,
  UINT64,
  FLOAT,
  DOUBLE,
  OTHER
};

#if defined(__GNUC__)
__attribute__((unused))
#endif
static const char* const DataTypeName[] = {"CHAR",   "INT8",  "INT16",  "INT32",
                                           "INT64",  "UINT8", "UINT16", "UINT32",
                                           "UINT64", "FLOAT", "DOUBLE", "OTHER"};

template <typename V, typename W>
inline bool SameType() {
  return std::is_same<typename std::remove_cv<V>::type, W>::value;
}

// `char` is OTHER, as in upstream, so that MXNet's values are.
template <typename V>
DataType GetDataType() {
  if (SameType<V, int8_t>()) return INT8;
  if (SameType<V, int16_t>()) return INT16;
  if (SameType<V, int32_t>()) return INT32;
  if (SameType<V, int64_t>()) return INT64;
  if (SameType<V, uint8_t>()) return UINT8;
  if (SameType<V, uint16_t>()) return UINT16;
  if (SameType<V, uint32_t>()) return UINT32;
  if (SameType<V, uint64_t>()) return UINT64;
  if (SameType<V, float>()) return FLOAT;
  if (SameType<V, double>()) return DOUBLE;
  return OTHER;
}

namespace abi {

// The value of an int that is not set. In a base class that is a template, so that its address may
// be taken although all of this is in headers.
template <typename Unused>
struct HasEmpty {
#ifdef PSLITE_DIALECT_BYTEPS
  static const int kEmpty = std::numeric_limits<int16_t>::max();
#else
  static const int kEmpty = std::numeric_limits<int32_t>::max();
#endif
};
template <typename Unused>
const int HasEmpty<Unused>::kEmpty;

}  // namespace abi

// One node of a job.
struct Node : public abi::HasEmpty<void> {
  enum Role { SERVER, WORKER, SCHEDULER, JOINT };

  Role role = SERVER;
  int id = kEmpty;
  int customer_id = 0;
  std::string hostname;
  int port = kEmpty;
  bool is_recovery = false;

  // BytePS: several ports and devices for each node. pslite uses one port, which is `port`.
  int num_ports = 0;
  std::array<int, 32> ports{};
  std::array<int, 32> dev_types{};
  std::array<int, 32> dev_ids{};
  char endpoint_name[64] = {};
  size_t endpoint_name_len = 0;
  // BytePS: the rank that the node asks for, or -1.
  int aux_id = -1;

  std::string DebugString() const {
    std::ostringstream text;
    text << "role="
         << (role == SERVER      ? "server"
             : role == WORKER    ? "worker"
             : role == SCHEDULER ? "scheduler"
                                 : "joint")
         << (id != kEmpty ? ", id=" + std::to_string(id) : std::string()) << ", ip=" << hostname
         << ", port=" << port << ", is_recovery=" << is_recovery;
    return text.str();
  }
  std::string ShortDebugString() const {
    std::string text = role == SERVER ? "S" : role == WORKER ? "W" : role == SCHEDULER ? "H" : "J";
    if (id != kEmpty) text += "[" + std::to_string(id) + "]";
    return text;
  }
};

// What a message between nodes themselves asks for. Applications get none of these.
struct Control {
  enum Command {
    EMPTY,
    TERMINATE,
    ADD_NODE,
    BARRIER,
    ACK,
    HEARTBEAT,
    BOOTSTRAP,
    ADDR_REQUEST,
    ADDR_RESOLVED,
    INSTANCE_BARRIER
  };

  Command cmd = EMPTY;
  std::vector<Node> node;
  int barrier_group = 0;
  uint64_t msg_sig = 0;

  bool empty() const { return cmd == EMPTY; }

  std::string DebugString() const {
    if (empty()) return std::string();
    static const char* const names[] = {
        "EMPTY",     "TERMINATE", "ADD_NODE",     "BARRIER",       "ACK",
        "HEARTBEAT", "BOOTSTRAP", "ADDR_REQUEST", "ADDR_RESOLVED", "INSTANCE_BARRIER"};
    const size_t known = sizeof names / sizeof names[0];
    std::ostringstream text;
    text << "cmd=" << (static_cast<size_t>(cmd) < known ? names[cmd] : "unknown");
    if (!node.empty()) {
      text << ", node={";
      for (const Node& each : node) text << " " << each.DebugString();
      text << " }";
    }
    if (cmd == BARRIER || cmd == INSTANCE_BARRIER) text << ", barrier_group=" << barrier_group;
    if (cmd == ACK) text << ", msg_sig=" << msg_sig;
    return text.str();
  }
};

// Everything about a message but its data.
struct Meta : public abi::HasEmpty<void> {
  int head = kEmpty;
  int app_id = kEmpty;
  int customer_id = kEmpty;
  int timestamp = kEmpty;
  int sender = kEmpty;
  int recver = kEmpty;
  bool request = false;
  bool push = false;
  bool pull = false;
  bool simple_app = false;
  std::string body;
  std::vector<DataType> data_type;
  Control control;
  // Bytes of data.
  int data_size = 0;
  int priority = 0;

  // BytePS: where the values lie at the sender, and where it wants them at the receiver.
  DeviceType src_dev_type = UNK;
  int src_dev_id = -1;
  DeviceType dst_dev_type = UNK;
  int dst_dev_id = -1;
  // BytePS: what vans use that write into remote memory. pslite does not send these.
  uint64_t key = 0;
  uint64_t addr = 0;
  int val_len = 0;
  int option = 0;
  int sid = 0;

  std::string DebugString() const {
    std::ostringstream text;
    if (sender == kEmpty) {
      text << "?";
    } else {
      text << sender;
    }
    text << " => " << recver << ". Meta: request=" << request;
    if (timestamp != kEmpty) text << ", timestamp=" << timestamp;
    if (!control.empty()) {
      text << ", control={ " << control.DebugString() << " }";
    } else {
      text << ", app_id=" << app_id << ", customer_id=" << customer_id
           << ", simple_app=" << simple_app << ", push=" << push << ", pull=" << pull;
    }
    if (head != kEmpty) text << ", head=" << head;
    if (!body.empty()) text << ", body=" << body;
    if (!data_type.empty()) {
      text << ", data_type={";
      for (const DataType type : data_type) text << " " << DataTypeName[type];
      text << " }";
    }
    return text.str();
  }
};

// A message: metadata and arrays. Copies share the arrays' memory.
struct Message {
  Meta meta;
  std::vector<SArray<char>> data;

  template <typename V>
  void AddData(const SArray<V>& values) {
    CHECK_EQ(data.size(), meta.data_type.size());
    meta.data_type.push_back(GetDataType<V>());
    const SArray<char> bytes(values);
    meta.data_size += static_cast<int>(bytes.size());
    if (data.size() == 1) {
      // The second array is that of the values.
      meta.src_dev_type = values.src_device_type_;
      meta.src_dev_id = values.src_device_id_;
      meta.dst_dev_type = values.dst_device_type_;
      meta.dst_dev_id = values.dst_device_id_;
    }
    data.push_back(bytes);
  }

  std::string DebugString() const {
    std::ostringstream text;
    text << meta.DebugString();
    if (!data.empty()) {
      text << " Body:";
      for (const SArray<char>& each : data) text << " data_size=" << each.size();
    }
    return text.str();
  }
};

}  // namespace ps

#endif  // PS_INTERNAL_MESSAGE_H_
