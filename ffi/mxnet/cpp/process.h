// process.h: the one node of this process.
#ifndef PSLITE_MXNET_PROCESS_H_
#define PSLITE_MXNET_PROCESS_H_

#include "pslite.h"

namespace pslite_mxnet {

// Made at the first call, never freed; throws std::runtime_error if that fails.
pslite_node* process_node();

// At the end of the process: stops the node, runs no more callbacks.
void end_process_node();

// True in a process that was forked from the one whose node this is.
bool is_forked();

}  // namespace pslite_mxnet

#endif  // PSLITE_MXNET_PROCESS_H_
