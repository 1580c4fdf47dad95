// function48.h: std::function as GCC 4.8 lays it out and calls it. Copies, calls and destroys the
// ones that MXNet made; makes none itself. May include nothing of ps-lite.
//
// GCC 4.8 stores an invoker that takes by-value arguments by value, later libraries by reference:
// a std::function of ours would call MXNet's with a pointer to the pointer. So MXNet's are only
// ever looked at through `Function`.
#ifndef PSLITE_MXNET_FUNCTION48_H_
#define PSLITE_MXNET_FUNCTION48_H_

#include <cstddef>
#include <cstring>

namespace ps {

struct Function {
  // _M_manager; the operations are those of std::_Manager_operation.
  typedef bool (*Manager)(void* to, const void* from, int operation);
  enum { kClone = 2, kDestroy = 3 };

  char data[16];
  Manager manager;
  void* invoker;

  bool set() const { return manager != nullptr; }

  // Overwrites this one, which must hold nothing.
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

  // Calls it; `Args` are the types of the std::function's own signature.
  template <typename... Args>
  void call(Args... args) const {
    typedef void (*Invoker)(const void*, Args...);
    reinterpret_cast<Invoker>(invoker)(this, args...);
  }

  // The closure's address, if `original`, of which this one is a copy, keeps it on the heap: then
  // the copy has a closure of its own. Null if it lies in `data`.
  void* closure_unlike(const Function& original) const {
    void* mine;
    void* its;
    memcpy(&mine, data, sizeof mine);
    memcpy(&its, original.data, sizeof its);
    return mine != its ? mine : nullptr;
  }
};
static_assert(sizeof(Function) == 32 && offsetof(Function, manager) == 16 &&
                  offsetof(Function, invoker) == 24,
              "std::function of the wheel");

// The signatures keep std::function, because the symbols' names come from it.
template <typename F>
const Function& as_function(const F& f) {
  static_assert(sizeof(F) == sizeof(Function), "std::function");
  return reinterpret_cast<const Function&>(f);
}

}  // namespace ps

#endif  // PSLITE_MXNET_FUNCTION48_H_
