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

#if defined(_GLIBCXX_USE_CXX11_ABI) && _GLIBCXX_USE_CXX11_ABI
#error "compile with -D_GLIBCXX_USE_CXX11_ABI=0: the wheel has the old string ABI"
#endif

namespace ps {

typedef uint64_t Key;

class SimpleApp;
template <typename Val>
class KVServer;

// A std::function of the wheel. GCC 4.8 stores an invoker that takes by-value arguments by value,
// later ones by reference: so never a std::function of ours, always this.
struct Function {
  typedef bool (*Manager)(void* to, const void* from, int operation);
  enum { kClone = 2, kDestroy = 3 };

  char data[16];
  Manager manager;
  void* invoker;

  bool set() const { return manager != nullptr; }
  void copy_from(const Function& other) {
    manager = nullptr;
    invoker = nullptr;
    if (!other.set()) return;
    other.manager(this, &other, kClone);
    manager = other.manager;
    invoker = other.invoker;
  }
  void destroy() {
    if (set()) manager(this, this, kDestroy);
    manager = nullptr;
  }
  // The closure, if it is too big for `data` and so on the heap: then this is its address.
  void* heap() const { return *reinterpret_cast<void* const*>(data); }
};
static_assert(sizeof(Function) == 32, "std::function of the wheel");

// The signatures keep std::function, because the symbols' names come from it; inside it is only
// ever looked at through Function.
template <typename F>
const Function& as_function(const F& f) {
  static_assert(sizeof(F) == sizeof(Function), "std::function");
  return reinterpret_cast<const Function&>(f);
}

template <typename V>
struct SArray {
  size_t size_;
  size_t capacity_;
  std::shared_ptr<V> ptr_;

  SArray() : size_(0), capacity_(0) {}
  size_t bytes() const { return size_ * sizeof(V); }
};
static_assert(sizeof(SArray<char>) == 32, "SArray");

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
static_assert(sizeof(Node) == 32 && offsetof(Node, is_recovery) == 0x1c, "Node");

struct KVMeta {
  int cmd;
  bool push;
  bool pull;
  int sender;
  int timestamp;
  int customer_id;
};
static_assert(sizeof(KVMeta) == 20, "KVMeta");

template <typename Val>
struct KVPairs {
  SArray<Key> keys;
  SArray<Val> vals;
  SArray<int> lens;
  int priority;
};
static_assert(sizeof(KVPairs<char>) == 104, "KVPairs");

struct SimpleData {
  int head;
  std::string body;
  int sender;
  int timestamp;
  int customer_id;
};
static_assert(sizeof(SimpleData) == 32, "SimpleData");

// Only our own Process ever looks inside: so it is what we like.
struct Message {
  const pslite_message* handle;
};

// MXNet reads my_node_ and ready_ inline.
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

// MXNet allocates 280 bytes and reads the two ids inline.
class Customer {
 public:
  Customer(int app_id, int customer_id,
           const std::function<void(const Message&)>& receive);
  ~Customer();

  int app_id_;
  int customer_id_;
  pslite_customer* handle;
  Function receive;
};
static_assert(sizeof(Customer) <= 280, "Customer");

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
static_assert(sizeof(Postoffice) == 560, "Postoffice");
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

  Customer* obj_;
  Function request_handle_;
  Function response_handle_;
};
static_assert(sizeof(SimpleApp) == 80, "SimpleApp");

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

template <typename Val>
class KVServer : public SimpleApp {
 public:
  virtual ~KVServer();
  virtual void Process(const Message& message);
  void Response(const KVMeta& request, const KVPairs<Val>& kvs);

  Function kv_handle_;
};
static_assert(sizeof(KVServer<char>) == 112, "KVServer");

}  // namespace ps

#endif  // PSLITE_MXNET_LAYOUT_H_
