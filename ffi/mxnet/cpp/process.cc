// The node of this process.
#include "process.h"

#include <mutex>
#include <stdexcept>
#include <unistd.h>

#include "completion.h"
#include "wheel.h"

namespace pslite_mxnet {

namespace {
std::mutex node_mutex;
pslite_node* node = nullptr;
pid_t owner = 0;
}  // namespace

pslite_node* process_node() {
  // In a fork the lock may be held for ever; the C ABI refuses the node with a text.
  if (is_forked()) return node;
  std::lock_guard<std::mutex> lock(node_mutex);
  if (!node) {
    if (pslite_node_new(setting, nullptr, &node) != PSLITE_OK) {
      throw std::runtime_error(pslite_last_error());
    }
    owner = getpid();
    // For other code in this process, such as Python beside MXNet.
    pslite_set_process_node(node);
  }
  return node;
}

// Other threads may be inside the node now: so it is stopped, not freed.
void end_process_node() {
  if (!node || is_forked()) return;
  end_completions();
  pslite_node_stop(node);
}

// A fork has none of the node's threads: ending them there would wait for ever.
bool is_forked() { return owner && owner != getpid(); }

}  // namespace pslite_mxnet
