// The loaded libmxnet.so. It is not in the global scope (Python loads it locally), so its symbols
// are found through a handle of the loaded library.
#include "wheel.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <unwind.h>

namespace pslite_mxnet {

namespace {

void* wheel_handle() {
  // Never closed: the wheel stays as long as we do.
  return dlopen("libmxnet.so", RTLD_NOLOAD | RTLD_LAZY);
}

struct Expected {
  const char* name;
  size_t size;  // 0: any
};

// Sizes of GCC 4.8's layouts (a GCC 5 build has a Postoffice of 592 bytes), and the calls that we
// take over, whose names spell their arguments: 1.6 lacks the priority of ZPush.
const Expected kExpected[] = {
    {"_ZZN2ps10Postoffice3GetEvE1e", 560},
    {"_ZTVN2ps8KVWorkerIcEE", 88},
    {"_ZTVN2ps8KVServerIcEE", 88},
    {"_ZN2ps8KVWorkerIcE5ZPushERKNS_6SArrayImEERKNS2_IcEERKNS2_IiEEiRKSt8functionIFvvEEi", 0},
    {"_ZN2ps8KVWorkerIcE4SendEibbiRKNS_7KVPairsIcEE", 0},
    {"_ZN2ps8KVWorkerIcE9AddPullCBINS_6SArrayIcEENS3_IiEEEEiRKNS3_ImEEPT_PT0_iRKSt8functionIFvvEE",
     0},
    {"_ZN2ps8KVServerIcE8ResponseERKNS_6KVMetaERKNS_7KVPairsIcEE", 0},
    {"_ZN2ps8CustomerC1EiiRKSt8functionIFvRKNS_7MessageEEE", 0},
    {"_ZN2ps3Van6CreateERKSs", 0},
    {"_ZNK2ps3Van7my_nodeEv", 0},
};

size_t symbol_size(void* address) {
  Dl_info info;
  ElfW(Sym)* symbol = nullptr;
  if (!dladdr1(address, &info, reinterpret_cast<void**>(&symbol), RTLD_DL_SYMENT)) return 0;
  return symbol ? symbol->st_size : 0;
}

std::string wheel_path() {
  void* symbol = wheel_symbol("MXGetLastError");
  Dl_info info;
  if (symbol && dladdr(symbol, &info) && info.dli_fname) return info.dli_fname;
  return "libmxnet.so";
}

}  // namespace

void* wheel_symbol(const char* name) {
  void* handle = wheel_handle();
  return handle ? dlsym(handle, name) : nullptr;
}

std::string unknown_wheel() {
  if (!wheel_handle()) {
    return "pslite: no libmxnet.so is loaded in this process, but something calls ps-lite in it";
  }
  for (const Expected& expected : kExpected) {
    void* symbol = wheel_symbol(expected.name);
    const bool fits = symbol && (!expected.size || symbol_size(symbol) == expected.size);
    if (fits) continue;
    return "pslite: " + wheel_path() + " is not a build that this library knows (" +
           expected.name + (symbol ? " has another size" : " is missing") +
           "); run without the preload, or see docs/mxnet-wheels.md";
  }
  return std::string();
}

const char* setting(void*, const char* name) {
  typedef void* (*Get)();
  typedef const char* (*Find)(void*, const char*);
  static const Get get = reinterpret_cast<Get>(wheel_symbol("_ZN2ps11Environment3GetEv"));
  static const Find find = reinterpret_cast<Find>(wheel_symbol("_ZN2ps11Environment4findEPKc"));
  if (get && find) {
    if (void* environment = get()) return find(environment, name);
  }
  return getenv(name);
}

namespace {

_Unwind_Reason_Code look_at_frame(struct _Unwind_Context* context, void* found) {
  Dl_info info;
  void* address = reinterpret_cast<void*>(_Unwind_GetIP(context) - 1);
  if (dladdr(address, &info) && info.dli_sname && strstr(info.dli_sname, "StoreDistD") &&
      strstr(info.dli_sname, "5mxnet")) {
    *static_cast<bool*>(found) = true;
    return _URC_END_OF_STACK;
  }
  return _URC_NO_REASON;
}

}  // namespace

bool in_kvstore_destructor() {
  bool found = false;
  _Unwind_Backtrace(look_at_frame, &found);
  return found;
}

}  // namespace pslite_mxnet
