// completion.h: the end of one request: MXNet's callback, and how it learns of a failure.
#ifndef PSLITE_MXNET_COMPLETION_H_
#define PSLITE_MXNET_COMPLETION_H_

#include "function48.h"

namespace pslite_mxnet {

// A copy of the callback that came with a request. Run at most once; destroyed by hand.
class Completion {
 public:
  explicit Completion(const ps::Function& callback) : closure_(nullptr) {
    callback_.copy_from(callback);
    if (callback_.set()) closure_ = static_cast<void**>(callback_.closure_unlike(callback));
  }
  ~Completion() { callback_.destroy(); }
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  // Runs the callback. After a failure the engine is told, so that whoever waits for the arrays
  // gets `error`.
  void run(int status, const char* error) noexcept;

 private:
  void run_failed(const char* error);

  ps::Function callback_;
  void** closure_;  // on the heap, or null
};

// The process ends: from now on no callback is run, since what it would use may be gone.
void end_completions();

}  // namespace pslite_mxnet

#endif  // PSLITE_MXNET_COMPLETION_H_
