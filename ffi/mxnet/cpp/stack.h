// stack.h: from where in MXNet a call comes.
#ifndef PSLITE_MXNET_STACK_H_
#define PSLITE_MXNET_STACK_H_

namespace pslite_mxnet {

// True if the caller runs inside the destructor of MXNet's kvstore: from there nothing may be
// thrown, and a barrier of the workers means that this one leaves.
bool in_kvstore_destructor();

}  // namespace pslite_mxnet

#endif  // PSLITE_MXNET_STACK_H_
