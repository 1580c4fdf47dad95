// Failures on the thread of the caller.
#include "errors.h"

#include <atomic>
#include <mutex>
#include <stdexcept>

#include "process.h"
#include "pslite.h"
#include "stack.h"

namespace pslite_mxnet {

namespace {

std::mutex remembered_mutex;
std::atomic<bool> is_remembered(false);
// The application has got an exception, or a line was printed in its place. What fails later fails
// for the same reason.
std::atomic<bool> is_said(false);

// Never destroyed: callbacks may still fail while the process ends.
std::string& remembered() {
  static std::string& text = *new std::string();
  return text;
}

void raise_text(const std::string& text) {
  if (in_kvstore_destructor()) {
    // At the end of a fork, or of its copy of the kvstore, there is nothing to tell.
    if (is_forked() || is_said.exchange(true)) return;
    pslite_log(0, text.c_str());
    return;
  }
  is_said = true;
  throw std::runtime_error("pslite: " + text);
}

}  // namespace

void raise(const char* what) { raise_text(std::string(what) + ": " + pslite_last_error()); }

void check(int status, const char* what) {
  if (status != PSLITE_OK) raise(what);
}

void remember_failure(const std::string& text) {
  {
    std::lock_guard<std::mutex> lock(remembered_mutex);
    if (is_remembered) return;
    remembered() = text;
    is_remembered = true;
  }
  // The next call of the application raises it.
  pslite_log(0, text.c_str());
}

void raise_remembered() {
  if (!is_remembered) return;
  std::unique_lock<std::mutex> lock(remembered_mutex);
  const std::string text = remembered();
  lock.unlock();
  raise_text("an earlier request failed: " + text);
}

bool has_remembered() { return is_remembered; }

std::string remembered_failure() {
  if (!is_remembered) return std::string();
  std::lock_guard<std::mutex> lock(remembered_mutex);
  return remembered();
}

void forget_failure() {
  is_remembered = false;
  is_said = false;
}

}  // namespace pslite_mxnet
