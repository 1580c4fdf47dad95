// Failed requests and MXNet's engine.
//
// The callback that MXNet gives to ps-lite has no argument for an error. But its closure holds the
// engine's completion by value (mxnet::engine::CallbackOnComplete): {function, engine, operation},
// and that function takes an error as third argument (ThreadedEngine::OnCompleteStatic), which the
// engine then throws out of wait_to_read() and asnumpy(). So after a failure the function's address
// inside the closure is replaced by ours, which calls the original with the error. The closure is
// our own copy and used once.
//
// In P3 mode one operation has several requests, which count down and call the completion in the
// last one; so the failed operation is remembered until the request that completes it ends.
#include "completion.h"

#include <atomic>
#include <cstddef>
#include <map>
#include <malloc.h>
#include <mutex>
#include <stdexcept>
#include <string>

#include "pslite.h"
#include "errors.h"
#include "process.h"
#include "stack.h"
#include "wheel.h"

namespace pslite_mxnet {

namespace {

typedef void (*Complete)(void* engine, void* operation, const void* error);

// As in include/mxnet/engine.h.
struct EngineCall {
  Complete function;
  void* engine;
  void* operation;
};
static_assert(sizeof(EngineCall) == 24, "CallbackOnComplete");

// As MXNet's dmlc::Error: a std::runtime_error and nothing more. The engine copies the text.
struct EngineError : public std::runtime_error {
  explicit EngineError(const std::string& text) : std::runtime_error(text) {}
};
static_assert(sizeof(EngineError) == 16, "dmlc::Error");

// The two completions of the wheel. The naive engine's ignores its third argument.
struct Engines {
  Complete threaded;
  Complete naive;

  Engines()
      : threaded(reinterpret_cast<Complete>(wheel_symbol(
            "_ZN5mxnet6engine14ThreadedEngine16OnCompleteStaticEPNS_6EngineEPvPKN4dmlc5ErrorE"))),
        naive(reinterpret_cast<Complete>(wheel_symbol(
            "_ZN5mxnet6engine11NaiveEngine10OnCompleteEPNS_6EngineEPvPKN4dmlc5ErrorE"))) {}
};

const Engines& engines() {
  static const Engines engines;
  return engines;
}

// Operations of which a request has failed and that are not completed yet. More than this many at
// once, and the rest is raised by later calls instead.
const size_t kFailedMax = 4096;
std::mutex failed_mutex;
std::atomic<size_t> failed_count(0);

std::map<void*, std::string>& failed() {
  // Never destroyed: used until the very end of the process.
  static std::map<void*, std::string>& map = *new std::map<void*, std::string>();
  return map;
}

bool add_failed(void* operation, const std::string& text) {
  std::lock_guard<std::mutex> lock(failed_mutex);
  if (failed().size() >= kFailedMax) return false;
  failed().insert(std::make_pair(operation, text));
  failed_count = failed().size();
  return true;
}

bool is_failed(void* operation) {
  std::lock_guard<std::mutex> lock(failed_mutex);
  return failed().count(operation) != 0;
}

std::string take_failed(void* operation) {
  std::lock_guard<std::mutex> lock(failed_mutex);
  const auto found = failed().find(operation);
  if (found == failed().end()) return "pslite: the request failed";
  const std::string text = found->second;
  failed().erase(found);
  failed_count = failed().size();
  return text;
}

// Stands in for OnCompleteStatic in the closures of failed operations.
void complete_with_error(void* engine, void* operation, const void*) {
  const EngineError error(take_failed(operation));
  engines().threaded(engine, operation, &error);
}

// The engine's completion inside a closure, or null.
EngineCall* find_call(void** closure) {
  if (!closure) return nullptr;
  const size_t words = malloc_usable_size(closure) / sizeof(void*);
  for (size_t i = 0; i + 3 <= words; ++i) {
    EngineCall* call = reinterpret_cast<EngineCall*>(closure + i);
    if (!call->function) continue;
    if (call->function == engines().threaded || call->function == engines().naive) return call;
  }
  return nullptr;
}

std::atomic<bool> ended(false);

}  // namespace

void end_completions() { ended = true; }

void Completion::run(int status, const char* error, Seen seen) noexcept {
  if (ended) {
    // Not even destroyed: the closure may hold what is gone already.
    callback_.manager = nullptr;
    return;
  }
  if (!callback_.set()) {
    if (status != PSLITE_OK) remember_failure(error ? error : "the request failed");
    return;
  }
  if (status != PSLITE_OK) return run_failed(error ? error : "the request failed", seen);
  if (failed_count) {
    EngineCall* call = find_call(closure_);
    if (call && is_failed(call->operation)) call->function = complete_with_error;
  }
  callback_.call<>();
}

void Completion::run_failed(const char* error, Seen seen) {
  EngineCall* call = find_call(closure_);
  const std::string text = std::string("pslite: ") + error;
  if (call && call->function == engines().threaded && add_failed(call->operation, text)) {
    call->function = complete_with_error;
    if (seen == kByNobody) remember_failure(error);
  } else {
    // The naive engine, or a callback that is not an engine's: the next call raises it.
    remember_failure(error);
  }
  callback_.call<>();
}

}  // namespace pslite_mxnet

namespace mxnet {
namespace engine {

struct Var;

// MXNet's own, for which this stands in: the destructor of a kvstore begins with it, and an error
// of a request that nobody has looked at yet would be thrown out of that destructor, which ends the
// process with an abort. There it is logged instead. Everywhere else it also throws the errors that
// no array carries: those of pushes.
class ThreadedEngine {
 public:
  void WaitForAll();
  void WaitForVar(Var* var);
};

namespace {

// What MXNet throws after a request has failed is mostly what came of that: so the failure is told
// first.
[[noreturn]] void tell_the_failure_first(const std::exception& error) {
  const std::string said = error.what();
  const std::string failure = pslite_mxnet::remembered_failure();
  if (failure.empty() || said.find(failure) != std::string::npos) throw;
  throw std::runtime_error("pslite: an earlier request failed: " + failure + "\nThen: " + said);
}

}  // namespace

void ThreadedEngine::WaitForAll() {
  typedef void (*Wait)(ThreadedEngine*);
  static const Wait wait = reinterpret_cast<Wait>(
      pslite_mxnet::wheel_symbol("_ZN5mxnet6engine14ThreadedEngine10WaitForAllEv"));
  if (!wait) throw std::runtime_error("pslite: the engine of MXNet is not found");
  // In a fork what the engine waits for may never come, and the kvstore is only a copy.
  if (pslite_mxnet::is_forked() && pslite_mxnet::in_kvstore_destructor()) return;
  try {
    wait(this);
  } catch (const std::exception& error) {
    if (!pslite_mxnet::in_kvstore_destructor()) tell_the_failure_first(error);
    pslite_log(0, error.what());
  }
  // Once, as the engine throws its own errors once: MXNet waits for all again when Python ends.
  static std::atomic<bool> told(false);
  if (!told && pslite_mxnet::has_remembered() && !told.exchange(true)) {
    pslite_mxnet::raise_remembered();
  }
}

// MXNet's own too: what asnumpy() and wait_to_read() wait in.
void ThreadedEngine::WaitForVar(Var* var) {
  typedef void (*Wait)(ThreadedEngine*, Var*);
  static const Wait wait = reinterpret_cast<Wait>(
      pslite_mxnet::wheel_symbol("_ZN5mxnet6engine14ThreadedEngine10WaitForVarEPNS0_3VarE"));
  if (!wait) throw std::runtime_error("pslite: the engine of MXNet is not found");
  try {
    wait(this, var);
  } catch (const std::exception& error) {
    tell_the_failure_first(error);
  }
}

}  // namespace engine
}  // namespace mxnet
