// layout.h: the classes of ps-lite as the stock MXNet wheel has them in memory: GCC 4.8 layouts,
// old string ABI. Only what crosses the border; everything else is padding. The offsets are facts
// of the wheel (docs/mxnet.md) and pinned below. May include nothing but the C ABI.
#ifndef PSLITE_MXNET_LAYOUT_H_
#define PSLITE_MXNET_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pslite.h"
#include "function48.h"

#if defined(_GLIBCXX_USE_CXX11_ABI) && _GLIBCXX_USE_CXX11_ABI
#error "compile with -D_GLIBCXX_USE_CXX11_ABI=0: the wheel has the old string ABI"
#endif

// offsetof for classes with virtual functions, of which gcc knows the offsets all the same.
#define PSLITE_OFFSET(type, member) __builtin_offsetof(type, member)
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

namespace ps {

typedef uint64_t Key;

class SimpleApp;
template <typename Val>
class KVServer;

template <typename V>
struct SArray {
  size_t size_;
  size_t capacity_;
  std::shared_ptr<V> ptr_;

  SArray() : size_(0), capacity_(0) {}
  size_t bytes() const { return size_ * sizeof(V); }
};
static_assert(sizeof(SArray<char>) == 32, "SArray");
static_assert(offsetof(SArray<char>, capacity_) == 8 && offsetof(SArray<char>, ptr_) == 16,
              "SArray");

struct Range {
  uint64_t begin_;
  uint64_t end_;
};
static_assert(sizeof(Range) == 16, "Range");

struct Node {
  int role;
  int id;
  int customer_id;
  std::string hostname;
  int port;
  bool is_recovery;
};
static_assert(sizeof(Node) == 32, "Node");
static_assert(offsetof(Node, id) == 4 && offsetof(Node, customer_id) == 8, "Node");
static_assert(offsetof(Node, hostname) == 0x10 && offsetof(Node, port) == 0x18, "Node");
static_assert(offsetof(Node, is_recovery) == 0x1c, "Node");

struct KVMeta {
  int cmd;
  bool push;
  bool pull;
  int sender;
  int timestamp;
  int customer_id;
};
static_assert(sizeof(KVMeta) == 20, "KVMeta");
static_assert(offsetof(KVMeta, push) == 4 && offsetof(KVMeta, pull) == 5, "KVMeta");
static_assert(offsetof(KVMeta, sender) == 8 && offsetof(KVMeta, timestamp) == 12, "KVMeta");
static_assert(offsetof(KVMeta, customer_id) == 16, "KVMeta");

template <typename Val>
struct KVPairs {
  SArray<Key> keys;
  SArray<Val> vals;
  SArray<int> lens;
  int priority;
};
static_assert(sizeof(KVPairs<char>) == 104, "KVPairs");
static_assert(offsetof(KVPairs<char>, vals) == 0x20 && offsetof(KVPairs<char>, lens) == 0x40 &&
                  offsetof(KVPairs<char>, priority) == 0x60,
              "KVPairs");

struct SimpleData {
  int head;
  std::string body;
  int sender;
  int timestamp;
  int customer_id;
};
static_assert(sizeof(SimpleData) == 32, "SimpleData");
static_assert(offsetof(SimpleData, body) == 8 && offsetof(SimpleData, sender) == 16 &&
                  offsetof(SimpleData, timestamp) == 20 && offsetof(SimpleData, customer_id) == 24,
              "SimpleData");

// Only our own Process ever looks inside: so it is what we like.
struct Message {
  const pslite_message* handle;
};

// MXNet reads my_node_ and ready_ inline. Nothing virtual of it is ever called: vptr stays null.
class Van {
 public:
  const Node& my_node() const;

  void* vptr;
  char head[0x20];
  Node my_node_;
  char middle[0xd8 - 0x48];
  bool ready_;
  char tail[0x1b0 - 0xd9];
};
static_assert(offsetof(Van, my_node_) == 0x28 && offsetof(Van, ready_) == 0xd8, "Van");
static_assert(sizeof(Van) >= 0x1b0, "ZMQVan");

// MXNet allocates 280 bytes and reads the two ids inline.
class Customer {
 public:
  Customer(int app_id, int customer_id,
           const std::function<void(const Message&)>& receive);
  ~Customer();

  int app_id_;
  // What MXNet reads: 0 of each further kvstore (kvstores.h).
  int customer_id_;
  pslite_node* node_;
  pslite_customer* handle_;
  Function receive_;
  // At the node.
  int number_;
  // It came when the job ran already, and has keys of its own.
  bool further_;
};
static_assert(sizeof(Customer) <= 280, "Customer");
static_assert(offsetof(Customer, app_id_) == 0 && offsetof(Customer, customer_id_) == 4,
              "Customer");

struct PostofficeState;

// MXNet allocates 560 bytes in a static of its own and reads van_ and the counts inline.
class Postoffice {
 public:
  Postoffice();
  ~Postoffice();
  void Start(int customer_id, const char* argv0, const bool do_barrier);
  void Finalize(const int customer_id, const bool do_barrier);
  void Barrier(int customer_id, int group);
  const std::vector<Range>& GetServerKeyRanges();
  const std::vector<int>& GetNodeIDs(int group) const;
  std::vector<int> GetDeadNodes(int timeout);

  Van* van_;
  PostofficeState* state;
  char middle[0xd4 - 0x10];
  int num_servers_;
  int num_workers_;
  char tail[560 - 0xdc];
};
static_assert(sizeof(Postoffice) == 560 && offsetof(Postoffice, van_) == 0, "Postoffice");
static_assert(offsetof(Postoffice, num_servers_) == 0xd4, "Postoffice::num_servers_");
static_assert(offsetof(Postoffice, num_workers_) == 0xd8, "Postoffice::num_workers_");

// The order of the virtual functions is that of the wheel's vtable.
class SimpleApp {
 public:
  virtual ~SimpleApp();
  virtual int Request(int head, const std::string& body, int recv_id);
  virtual void Wait(int timestamp);
  virtual void Response(const SimpleData& request, const std::string& body);
  virtual void set_request_handle(const Function& handle);
  virtual void set_response_handle(const Function& handle);
  virtual Customer* get_customer();
  virtual void Process(const Message& message);

  // Ends the customer's thread; nothing of this object is used by it any more.
  void end_customer();

  Customer* obj_;
  Function request_handle_;
  Function response_handle_;
};
static_assert(sizeof(SimpleApp) == 80, "SimpleApp");
static_assert(PSLITE_OFFSET(SimpleApp, obj_) == 8, "SimpleApp::obj_");
static_assert(PSLITE_OFFSET(SimpleApp, request_handle_) == 0x10, "SimpleApp::request_handle_");
static_assert(PSLITE_OFFSET(SimpleApp, response_handle_) == 0x30, "SimpleApp::response_handle_");

// An empty std::unordered_map of GCC 4.8: 48 bytes, its buckets on the heap.
struct EmptyMap {
  void* buckets;
  char rest[40];
};
static_assert(sizeof(EmptyMap) == 48, "unordered_map of GCC 4.8");

template <typename Val>
class KVWorker : public SimpleApp {
 public:
  virtual ~KVWorker();
  virtual void Wait(int timestamp);
  virtual void Process(const Message& message);
  int ZPush(const SArray<Key>& keys, const SArray<Val>& vals, const SArray<int>& lens, int cmd,
            const std::function<void()>& done, int priority);
  template <typename C, typename D>
  int AddPullCB(const SArray<Key>& keys, C* vals, D* lens, int cmd,
                const std::function<void()>& done);
  void Send(int timestamp, bool push, bool pull, int cmd, const KVPairs<Val>& kvs);

  EmptyMap recv_kvs_;
  EmptyMap callbacks_;
  char mu_[40];
  Function slicer_;
};
static_assert(sizeof(KVWorker<char>) == 248, "KVWorker");
static_assert(PSLITE_OFFSET(KVWorker<char>, recv_kvs_) == 0x50, "KVWorker::recv_kvs_");
static_assert(PSLITE_OFFSET(KVWorker<char>, callbacks_) == 0x80, "KVWorker::callbacks_");
static_assert(PSLITE_OFFSET(KVWorker<char>, mu_) == 0xb0, "KVWorker::mu_");
static_assert(PSLITE_OFFSET(KVWorker<char>, slicer_) == 0xd8, "KVWorker::slicer_");

template <typename Val>
class KVServer : public SimpleApp {
 public:
  virtual ~KVServer();
  virtual void Process(const Message& message);
  void Response(const KVMeta& request, const KVPairs<Val>& kvs);

  Function kv_handle_;
};
static_assert(sizeof(KVServer<char>) == 112, "KVServer");
static_assert(PSLITE_OFFSET(KVServer<char>, kv_handle_) == 0x50, "KVServer::request_handle_");

}  // namespace ps

#endif  // PSLITE_MXNET_LAYOUT_H_
