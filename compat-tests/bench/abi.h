// abi.h: ps-lite as the stock MXNet wheel has it (GCC 4.8 layouts, old string ABI), seen from a
// program that stands where MXNet stands: it allocates and constructs the objects that MXNet
// allocates and constructs inline, and calls out of line only what MXNet calls out of line.
//
// Nothing is linked. The wheel is opened as Python opens it (RTLD_LOCAL), and every symbol is
// looked for first in the global scope, then in the wheel: the order in which the wheel's own calls
// are bound. So a preloaded library takes this program's calls exactly where it takes MXNet's.
//
// Must not: put a std::unordered_map or call a std::function with by-value arguments across the
// border (both changed since GCC 4.8), or call any ps:: symbol that is not in `Symbols`.
#ifndef PSLITE_COMPAT_TESTS_BENCH_ABI_H_
#define PSLITE_COMPAT_TESTS_BENCH_ABI_H_

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#if defined(_GLIBCXX_USE_CXX11_ABI) && _GLIBCXX_USE_CXX11_ABI
#error "compile with -D_GLIBCXX_USE_CXX11_ABI=0: the wheel has the old string ABI"
#endif

namespace ps {

typedef uint64_t Key;
const int kServerGroup = 2, kWorkerGroup = 4, kEverybody = 7;

// A std::function as GCC 4.8 stores it. The invoker takes the arguments as the function type spells
// them; later versions of the library pass references, so handlers are written down by hand.
struct Function {
  typedef bool (*Manager)(void* to, const void* from, int operation);
  void* data[2];
  Manager manager;
  void* invoker;
};
static_assert(sizeof(Function) == 32, "std::function");

// The manager of a closure that is two plain words (op 1: its address, 2: clone, 3: destroy).
inline bool plain_manager(void* to, const void* from, int operation) {
  if (operation == 1) *static_cast<const void**>(to) = from;
  if (operation == 2) std::memcpy(to, from, sizeof(void*) * 2);
  return false;
}

// Only ever shared as memory: size, capacity, shared_ptr (sarray.h:45).
template <typename V>
struct SArray {
  size_t size_;
  size_t capacity_;
  std::shared_ptr<V> ptr_;

  SArray() : size_(0), capacity_(0) {}
  // Memory of the caller, kept by the caller: sarray.h's `SArray(V*, size_t, deletable=false)`.
  SArray(V* data, size_t size) : size_(size), capacity_(size), ptr_(data, [](V*) {}) {}
  // Memory of its own: sarray.h's CopyFrom, which MXNet's server uses for every answer.
  static SArray copy_of(const V* data, size_t size) {
    SArray array;
    array.ptr_.reset(new V[size], [](V* memory) { delete[] memory; });
    std::memcpy(array.ptr_.get(), data, size * sizeof(V));
    array.size_ = array.capacity_ = size;
    return array;
  }
  V* data() const { return ptr_.get(); }
};
static_assert(sizeof(SArray<char>) == 32, "SArray");

struct Range {
  uint64_t begin, end;
};

struct KVPairs {
  SArray<Key> keys;
  SArray<char> vals;
  SArray<int> lens;
  int priority;
  KVPairs() : priority(0) {}
};
static_assert(sizeof(KVPairs) == 104, "KVPairs");

struct KVMeta {
  int cmd;
  bool push, pull;
  int sender, timestamp, customer_id;
};
static_assert(sizeof(KVMeta) == 20, "KVMeta");

struct SimpleData {
  int head;
  std::string body;
  int sender, timestamp, customer_id;
};
static_assert(sizeof(SimpleData) == 32, "SimpleData");

struct Node {
  int role, id, customer_id;
  std::string hostname;
  int port;
  bool is_recovery;
};
static_assert(sizeof(Node) == 32, "Node");

struct Message;  // looked at by the library alone

struct Postoffice {
  void* van;
};

struct Customer {
  int app_id, customer_id;
  char rest[280 - 8];
};
static_assert(sizeof(Customer) == 280, "Customer");

struct SimpleApp {
  void** vptr;
  Customer* obj;
  Function request_handle, response_handle;
};
static_assert(sizeof(SimpleApp) == 80, "SimpleApp");

// std::unordered_map of GCC 4.8, empty, as its inlined constructor leaves it.
struct Map48 {
  void** buckets;
  size_t bucket_count;
  void* first;
  size_t elements;
  std::__detail::_Prime_rehash_policy policy;
};
static_assert(sizeof(Map48) == 48, "unordered_map of GCC 4.8");

struct KVWorker : SimpleApp {
  Map48 recv_kvs, callbacks;
  char mutex[40];
  Function slicer;
};
static_assert(sizeof(KVWorker) == 248, "KVWorker<char>");

struct KVServer : SimpleApp {
  Function kv_handle;
};
static_assert(sizeof(KVServer) == 112, "KVServer<char>");

// Slots of the vtables, in words after the vptr.
enum Slot {
  kDelete = 1,
  kRequest = 2,
  kWait = 3,
  kResponse = 4,
  kSetRequestHandle = 5,
  kProcess = 8
};

template <typename F>
F slot(const SimpleApp* app, Slot which) {
  return reinterpret_cast<F>(app->vptr[which]);
}

// Everything of ps:: that is called or pointed at by name: a part of what MXNet uses by name.
struct Symbols {
  typedef std::function<void()> Callback;

  Postoffice* (*get)();
  void (*start)(Postoffice*, int customer, const char* argv0, bool barrier);
  void (*finalize)(Postoffice*, int customer, bool barrier);
  void (*barrier)(Postoffice*, int customer, int group);
  const std::vector<Range>& (*ranges)(Postoffice*);
  const Node& (*my_node)(const void* van);
  void (*customer)(Customer*, int app, int id, const std::function<void(const Message&)>&);
  int (*push)(KVWorker*, const SArray<Key>&, const SArray<char>&, const SArray<int>&, int cmd,
              const Callback&, int priority);
  int (*expect_pull)(KVWorker*, const SArray<Key>&, SArray<char>*, SArray<int>*, int cmd,
                     const Callback&);
  void (*send)(KVWorker*, int timestamp, bool push, bool pull, int cmd, const KVPairs&);
  void (*respond)(KVServer*, const KVMeta&, const KVPairs&);
  void** worker_vtable;
  void** server_vtable;
  void* default_slicer;

  explicit Symbols(const char* wheel) : handle_(dlopen(wheel, RTLD_LAZY | RTLD_LOCAL)) {
    if (!handle_) throw std::runtime_error(dlerror());
    // Stays with the wheel whoever serves the rest: a weak function with a UNIQUE static.
    find(&get, "_ZN2ps10Postoffice3GetEv");
    find(&start, "_ZN2ps10Postoffice5StartEiPKcb");
    find(&finalize, "_ZN2ps10Postoffice8FinalizeEib");
    find(&barrier, "_ZN2ps10Postoffice7BarrierEii");
    find(&ranges, "_ZN2ps10Postoffice18GetServerKeyRangesEv");
    find(&my_node, "_ZNK2ps3Van7my_nodeEv");
    find(&customer, "_ZN2ps8CustomerC1EiiRKSt8functionIFvRKNS_7MessageEEE");
    find(&push, "_ZN2ps8KVWorkerIcE5ZPushERKNS_6SArrayImEERKNS2_IcEERKNS2_IiEEiRKSt8function"
                "IFvvEEi");
    find(&expect_pull, "_ZN2ps8KVWorkerIcE9AddPullCBINS_6SArrayIcEENS3_IiEEEEiRKNS3_ImEEPT_PT0_i"
                       "RKSt8functionIFvvEE");
    find(&send, "_ZN2ps8KVWorkerIcE4SendEibbiRKNS_7KVPairsIcEE");
    find(&respond, "_ZN2ps8KVServerIcE8ResponseERKNS_6KVMetaERKNS_7KVPairsIcEE");
    find(&worker_vtable, "_ZTVN2ps8KVWorkerIcEE");
    find(&server_vtable, "_ZTVN2ps8KVServerIcEE");
    // Never called from here: its address goes into KVWorker::slicer_, as MXNet's constructor does.
    find(&default_slicer, "_ZN2ps8KVWorkerIcE13DefaultSlicerERKNS_7KVPairsIcEERKSt6vectorINS_5Ra"
                          "ngeESaIS7_EEPS6_ISt4pairIbS3_ESaISD_EE");
  }

  // The file that serves a call: the wheel, or a library preloaded over it.
  std::string server_of_calls() const {
    Dl_info info;
    return dladdr(reinterpret_cast<void*>(push), &info) ? info.dli_fname : "?";
  }

 private:
  template <typename T>
  void find(T* to, const char* name) {
    void* symbol = dlsym(RTLD_DEFAULT, name);
    if (!symbol) symbol = dlsym(handle_, name);
    if (!symbol) throw std::runtime_error(std::string("not in this wheel: ") + name);
    std::memcpy(to, &symbol, sizeof symbol);
  }

  void* handle_;
};

}  // namespace ps

#endif  // PSLITE_COMPAT_TESTS_BENCH_ABI_H_
