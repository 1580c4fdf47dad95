// completion.h: the end of one request: MXNet's callback, and how it learns of a failure.
#ifndef PSLITE_MXNET_COMPLETION_H_
#define PSLITE_MXNET_COMPLETION_H_

#include "function48.h"

namespace pslite_mxnet {

// Whether the engine shows a failure of the operation to anybody. A push writes to no array, so
// that nobody waits for its end: the engine keeps its error to itself.
enum Seen { kByArrays, kByNobody };

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
  // gets `error`; what nobody would see is raised by later calls.
  void run(int status, const char* error, Seen seen) noexcept;

 private:
  void run_failed(const char* error, Seen seen);

  ps::Function callback_;
  void** closure_;  // on the heap, or null
};

// The process ends: from now on no callback is run, since what it would use may be gone.
void end_completions();

}  // namespace pslite_mxnet

#endif  // PSLITE_MXNET_COMPLETION_H_
