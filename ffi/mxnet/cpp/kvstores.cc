// See kvstores.h. There are few: a list, and a lock. In a fork the lock may be held for ever, and
// the node refuses all in any case.
#include "kvstores.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "process.h"

namespace pslite_mxnet {

namespace {

struct State {
  std::mutex mutex;
  std::vector<ps::Customer*> here;
  int next = 0;
};

// Never destroyed: kvstores may be destroyed at the very end of the process.
State& state() {
  static State& state = *new State();
  return state;
}

// Where this thread is. It may be gone: only one that is in the list is looked at.
thread_local ps::Customer* current = nullptr;

bool is_here(const State& state, const ps::Customer* customer) {
  return std::find(state.here.begin(), state.here.end(), customer) != state.here.end();
}

}  // namespace

int number_kvstore(int asked, bool further) {
  if (is_forked()) return asked;
  std::lock_guard<std::mutex> lock(state().mutex);
  const int number = further ? std::max(asked, state().next) : asked;
  state().next = std::max(state().next, number + 1);
  return number;
}

void kvstore_is_here(ps::Customer* customer) {
  if (is_forked()) return;
  std::lock_guard<std::mutex> lock(state().mutex);
  state().here.push_back(customer);
  current = customer;
}

void kvstore_is_gone(ps::Customer* customer) {
  if (is_forked()) return;
  std::lock_guard<std::mutex> lock(state().mutex);
  std::vector<ps::Customer*>& here = state().here;
  here.erase(std::remove(here.begin(), here.end(), customer), here.end());
  if (current == customer) current = nullptr;
}

void in_kvstore(ps::Customer* customer) { current = customer; }

int number_of_kvstore(int customer_id) {
  if (is_forked()) return customer_id;
  std::lock_guard<std::mutex> lock(state().mutex);
  if (!is_here(state(), current) || !current->further_) return customer_id;
  return current->number_;
}

bool others_go_on() {
  if (is_forked()) return false;
  std::lock_guard<std::mutex> lock(state().mutex);
  const std::vector<ps::Customer*>& here = state().here;
  const bool any_further =
      std::any_of(here.begin(), here.end(), [](ps::Customer* one) { return one->further_; });
  return here.size() > 1 && any_further;
}

void job_is_over() {
  std::lock_guard<std::mutex> lock(state().mutex);
  state().next = 0;
}

}  // namespace pslite_mxnet
