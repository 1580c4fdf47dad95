// The call stack, compared with the addresses of MXNet's destructors. Those are exported by the
// wheel, so this needs no debug information. Asked at every barrier: so the addresses are looked up
// once, and a frame costs two comparisons for each.
#include "stack.h"

#include <cstddef>
#include <cstdint>
#include <unwind.h>

#include "wheel.h"

namespace pslite_mxnet {

namespace {

const char* const kDestructors[] = {
    "_ZN5mxnet7kvstore11KVStoreDistD2Ev",
    "_ZN5mxnet7kvstore11KVStoreDistD0Ev",
    "_ZN5mxnet7kvstore11P3StoreDistD2Ev",
    "_ZN5mxnet7kvstore11P3StoreDistD0Ev",
};
const size_t kCount = sizeof kDestructors / sizeof *kDestructors;

struct Code {
  uintptr_t begin;
  uintptr_t end;
};

struct Destructors {
  Code code[kCount];

  Destructors() {
    for (size_t i = 0; i < kCount; ++i) {
      void* symbol = wheel_symbol(kDestructors[i]);
      code[i].begin = reinterpret_cast<uintptr_t>(symbol);
      code[i].end = code[i].begin + symbol_size(symbol);
    }
  }
};

struct Search {
  const Destructors* destructors;
  bool found;
};

_Unwind_Reason_Code look_at_frame(struct _Unwind_Context* context, void* search_) {
  Search* search = static_cast<Search*>(search_);
  // The return address may lie just behind the call's function.
  const uintptr_t address = _Unwind_GetIP(context) - 1;
  for (const Code& code : search->destructors->code) {
    if (address < code.begin || address >= code.end) continue;
    search->found = true;
    return _URC_END_OF_STACK;
  }
  return _URC_NO_REASON;
}

}  // namespace

bool in_kvstore_destructor() {
  static const Destructors destructors;
  Search search = {&destructors, false};
  _Unwind_Backtrace(look_at_frame, &search);
  return search.found;
}

}  // namespace pslite_mxnet
