// wheel.h: the loaded libmxnet.so: its own symbols, and whether it is a build that we know.
#ifndef PSLITE_MXNET_WHEEL_H_
#define PSLITE_MXNET_WHEEL_H_

#include <string>

namespace pslite_mxnet {

// libmxnet's own definition of a symbol, not ours that stands before it; null if there is none.
void* wheel_symbol(const char* name);

// Empty if the loaded libmxnet has the layouts that this library is made for; else what differs.
std::string unknown_wheel();

// A setting: from MXInitPSEnv's overrides, else from the environment.
const char* setting(void* unused, const char* name);

// True if the caller runs inside the destructor of MXNet's kvstore, from where nothing may be
// thrown.
bool in_kvstore_destructor();

}  // namespace pslite_mxnet

#endif  // PSLITE_MXNET_WHEEL_H_
