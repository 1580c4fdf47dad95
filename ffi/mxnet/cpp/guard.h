// guard.h: whether the loaded libmxnet is a build whose memory this library knows.
#ifndef PSLITE_MXNET_GUARD_H_
#define PSLITE_MXNET_GUARD_H_

#include <string>

namespace pslite_mxnet {

// Empty if the loaded libmxnet has the layouts that this library is made for; else its path and
// what differs. Looked at once.
const std::string& unknown_wheel();

// Throws that text, if there is any.
void refuse_unknown_wheel();

}  // namespace pslite_mxnet

#endif  // PSLITE_MXNET_GUARD_H_
