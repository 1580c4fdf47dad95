// server_stop.h: the end of MXNet's main loop in a server.
#ifndef PSLITE_MXNET_SERVER_STOP_H_
#define PSLITE_MXNET_SERVER_STOP_H_

#include "layout.h"

namespace pslite_mxnet {

// The sender of commands that nobody sent: they are not answered.
const int kNobody = -2;

// From now on a failure of the job ends the main loop of this application's server.
void stop_on_failure(ps::SimpleApp* app);
void forget_server(ps::SimpleApp* app);

// To be asked before the application gets a command. False: it is a second stop, which MXNet would
// wait in for ever.
bool may_handle(int head);

// Returns when a stop of ours is out of MXNet's code.
void wait_for_server_stop();

}  // namespace pslite_mxnet

#endif  // PSLITE_MXNET_SERVER_STOP_H_
