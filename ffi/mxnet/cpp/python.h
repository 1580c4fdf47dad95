// python.h: what fails in the Python part of MXNet's own server (its optimizers are written in it),
// and what Python shows of a failure.
#ifndef PSLITE_MXNET_PYTHON_H_
#define PSLITE_MXNET_PYTHON_H_

#include <string>

namespace pslite_mxnet {

// MXNet's own server is about to get an optimizer. What failed before concerns another one and is
// forgotten.
void watch_python();

// Why MXNet's own server has not done what it was asked since; empty if it has.
std::string python_failure();

// The exception that MXNet's server or scheduler is about to raise in `import mxnet` was told in a
// line: Python is to print no traceback of it. The exit code stays.
void show_no_traceback();

}  // namespace pslite_mxnet

#endif  // PSLITE_MXNET_PYTHON_H_
