// errors.h: failures on the thread of the caller: exceptions, which MXNet's C API turns into
// MXNetError.
#ifndef PSLITE_MXNET_ERRORS_H_
#define PSLITE_MXNET_ERRORS_H_

#include <string>

namespace pslite_mxnet {

// Throws the last error of the C ABI as a std::runtime_error; from inside the kvstore's destructor
// it only logs. `what` names the call.
void raise(const char* what);

// Raises if the status is not PSLITE_OK.
void check(int status, const char* what);

// A failure that could not be told to whom it concerns: every later call raises it.
void remember_failure(const std::string& text);
void raise_remembered();
bool has_remembered();
// Its text; empty if there is none.
std::string remembered_failure();
void forget_failure();

}  // namespace pslite_mxnet

#endif  // PSLITE_MXNET_ERRORS_H_
