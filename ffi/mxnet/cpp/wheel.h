// wheel.h: the loaded libmxnet.so: its own symbols and its settings.
#ifndef PSLITE_MXNET_WHEEL_H_
#define PSLITE_MXNET_WHEEL_H_

#include <cstddef>
#include <string>

namespace pslite_mxnet {

// libmxnet's own definition of a symbol, not ours that stands before it; null if there is none.
void* wheel_symbol(const char* name);

// The st_size of the symbol that starts at this address; 0 if there is none.
size_t symbol_size(const void* address);

// Where libmxnet was loaded from; empty if it is not loaded.
std::string wheel_path();

// A setting, as pslite_lookup_fn: from MXInitPSEnv's overrides, else from the environment.
const char* setting(void* unused, const char* name);

}  // namespace pslite_mxnet

#endif  // PSLITE_MXNET_WHEEL_H_
