// errors.h: how failures reach MXNet: as exceptions on the caller's thread, and through the engine
// for what ends later.
#ifndef PSLITE_MXNET_ERRORS_H_
#define PSLITE_MXNET_ERRORS_H_

#include "layout.h"

namespace pslite_mxnet {

// Throws the last error, as a std::runtime_error, which MXNet's C API turns into MXNetError; from
// inside the kvstore's destructor it only logs. `what` names the call.
void raise(const char* what);
void check(int status, const char* what);

// Runs the end of a request. After a failure the engine is told, so that whoever waits for the
// arrays gets the error; `error` is its text.
void finish(const ps::Function& done, int status, const char* error);

}  // namespace pslite_mxnet

#endif  // PSLITE_MXNET_ERRORS_H_
