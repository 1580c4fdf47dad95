// ps/internal/env.h: where settings are looked up: first in a map that the application gave, then
// in the environment of the process. The node reads its settings here too.
#ifndef PS_INTERNAL_ENV_H_
#define PS_INTERNAL_ENV_H_

#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace ps {

class Environment {
 public:
  static Environment* Get() { return _GetSharedRef(nullptr).get(); }

  // Kept by those who may look something up late in the life of the process.
  static std::shared_ptr<Environment> _GetSharedRef() { return _GetSharedRef(nullptr); }

  // Replaces the map. Addresses that `find` gave before stay valid.
  static Environment* Init(const std::unordered_map<std::string, std::string>& envs) {
    return _GetSharedRef(&envs).get();
  }

  // The value, or null if the variable is nowhere set.
  const char* find(const char* name) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const auto found = values_->find(name);
      if (found != values_->end()) return found->second.c_str();
    }
    return std::getenv(name);
  }

  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  typedef std::unordered_map<std::string, std::string> Values;

  Environment() : values_(std::make_shared<Values>()) {}

  static const std::shared_ptr<Environment>& _GetSharedRef(const Values* envs) {
    // Never destroyed: threads may look something up until the very end of the process.
    static const std::shared_ptr<Environment>& one =
        *new std::shared_ptr<Environment>(new Environment());
    if (envs) {
      std::lock_guard<std::mutex> lock(one->mutex_);
      one->former_ = std::make_shared<Kept>(Kept{one->values_, one->former_});
      one->values_ = std::make_shared<Values>(*envs);
    }
    return one;
  }

  // Maps of before, whose texts somebody may still hold.
  struct Kept {
    std::shared_ptr<Values> values;
    std::shared_ptr<Kept> before;
  };

  std::mutex mutex_;
  std::shared_ptr<Values> values_;
  std::shared_ptr<Kept> former_;
};

}  // namespace ps

#endif  // PS_INTERNAL_ENV_H_
