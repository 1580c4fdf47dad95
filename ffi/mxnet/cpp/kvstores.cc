// See kvstores.h. There are few: a list, and a lock. In a fork the lock may be held for ever, and
// the node refuses all in any case.
#include "kvstores.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "process.h"

namespace pslite_mxnet {

namespace {

// What a kvstore of MXNet has initialised.
struct Initialised {
  ps::Customer* customer;
  std::set<int> keys;
  bool is_told;
};

struct State {
  std::mutex mutex;
  std::vector<ps::Customer*> here;
  // By the address of MXNet's object, for as long as its customer is here.
  std::map<const void*, Initialised> initialised;
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
  std::map<const void*, Initialised>& initialised = state().initialised;
  for (auto each = initialised.begin(); each != initialised.end();) {
    each = each->second.customer == customer ? initialised.erase(each) : std::next(each);
  }
  if (current == customer) current = nullptr;
}

void in_kvstore(ps::Customer* customer) { current = customer; }

void remember_keys(const void* kvstore, const std::vector<int>& keys) {
  std::lock_guard<std::mutex> lock(state().mutex);
  if (!is_here(state(), current)) return;
  const Initialised fresh = {current, std::set<int>(), false};
  Initialised& known = state().initialised.insert(std::make_pair(kvstore, fresh)).first->second;
  known.keys.insert(keys.begin(), keys.end());
}

bool knows_key(const void* kvstore, const std::vector<int>& keys, int* key) {
  std::lock_guard<std::mutex> lock(state().mutex);
  const auto known = state().initialised.find(kvstore);
  if (known == state().initialised.end()) return false;
  const std::set<int>& there = known->second.keys;
  const auto found = std::find_if(keys.begin(), keys.end(),
                                  [&](int each) { return there.count(each) != 0; });
  if (found == keys.end()) return false;
  *key = *found;
  return true;
}

bool tell_once(const void* kvstore) {
  std::lock_guard<std::mutex> lock(state().mutex);
  const auto known = state().initialised.find(kvstore);
  if (known == state().initialised.end() || known->second.is_told) return false;
  known->second.is_told = true;
  return true;
}

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
