// process.h: the one node of this process.
#ifndef PSLITE_MXNET_PROCESS_H_
#define PSLITE_MXNET_PROCESS_H_

#include "pslite.h"

namespace pslite_mxnet {

// Makes it at the first call; throws std::runtime_error if that fails.
pslite_node* process_node();

// Ends it with the process.
void stop_process_node();

}  // namespace pslite_mxnet

#endif  // PSLITE_MXNET_PROCESS_H_
