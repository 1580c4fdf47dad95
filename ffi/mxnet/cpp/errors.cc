// Failures on their way to MXNet.
//
// The callback that MXNet gives to ps-lite has no argument for an error. But its closure holds
// the engine's completion by value: {function, engine, operation}, and that function does take an
// error (ThreadedEngine::OnCompleteStatic), which then surfaces in wait_to_read() and asnumpy().
// So after a failure the function's address inside the closure is replaced by ours, which calls
// the original with the error; the closure is ours alone, and used once.
#include "errors.h"

#include <cstdio>
#include <malloc.h>
#include <stdexcept>

#include "wheel.h"

namespace pslite_mxnet {

namespace {

// As MXNet's dmlc::Error: a std::runtime_error and nothing more.
struct EngineError : public std::runtime_error {
  explicit EngineError(const std::string& text) : std::runtime_error(text) {}
};

typedef void (*Complete)(void* engine, void* operation, const void* error);

// What the replacement needs to know while one closure runs.
thread_local Complete current_complete = nullptr;
thread_local const EngineError* current_error = nullptr;

void complete_with_error(void* engine, void* operation, const void*) {
  if (current_complete) current_complete(engine, operation, current_error);
}

const char* const kCompletes[] = {
    "_ZN5mxnet6engine14ThreadedEngine16OnCompleteStaticEPNS_6EngineEPvPKN4dmlc5ErrorE",
    "_ZN5mxnet6engine11NaiveEngine10OnCompleteEPNS_6EngineEPvPKN4dmlc5ErrorE",
};

// Finds the engine's completion in a closure and replaces it; the original, or null.
Complete replace_complete(void** closure, size_t words) {
  for (const char* name : kCompletes) {
    void* original = wheel_symbol(name);
    if (!original) continue;
    for (size_t i = 0; i < words; ++i) {
      if (closure[i] != original) continue;
      closure[i] = reinterpret_cast<void*>(&complete_with_error);
      return reinterpret_cast<Complete>(original);
    }
  }
  return nullptr;
}

void run(const ps::Function& done) {
  typedef void (*Invoke)(const void*);
  reinterpret_cast<Invoke>(done.invoker)(&done);
}

}  // namespace

void raise(const char* what) {
  const std::string text = std::string(what) + ": " + pslite_last_error();
  if (in_kvstore_destructor()) {
    pslite_log(0, text.c_str());
    return;
  }
  throw std::runtime_error(text);
}

void check(int status, const char* what) {
  if (status != PSLITE_OK) raise(what);
}

void finish(const ps::Function& done, int status, const char* error) {
  if (!done.set()) return;
  if (status == PSLITE_OK) return run(done);
  const EngineError failure(std::string("pslite: ") + (error ? error : "the request failed"));
  // A closure that holds the completion is too big for std::function's own 16 bytes.
  void** closure = static_cast<void**>(done.heap());
  const size_t words = malloc_usable_size(closure) / sizeof(void*);
  current_complete = replace_complete(closure, words);
  current_error = &failure;
  if (!current_complete) pslite_log(0, failure.what());
  run(done);
  current_complete = nullptr;
  current_error = nullptr;
}

}  // namespace pslite_mxnet
