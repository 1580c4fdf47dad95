// ps/internal/utils.h: settings as values, and small macros.
#ifndef PS_INTERNAL_UTILS_H_
#define PS_INTERNAL_UTILS_H_

#include <cstdlib>
#include <string>
#include <type_traits>

#include "dmlc/logging.h"
#include "ps/internal/env.h"

namespace ps {

namespace abi {

// A text as a number: what is not one counts as 0, as in upstream.
template <typename V>
V parse(const char* text, std::true_type) {
  return std::is_floating_point<V>::value ? static_cast<V>(std::strtod(text, nullptr))
                                          : static_cast<V>(std::strtoll(text, nullptr, 10));
}
template <typename V>
V parse(const char* text, std::false_type) {
  return V(text);
}

}  // namespace abi

// The value of a variable, or `otherwise` if it is not set.
template <typename V>
inline V GetEnv(const char* name, V otherwise) {
  const char* text = Environment::Get()->find(name);
  return text ? abi::parse<V>(text, std::is_arithmetic<V>()) : otherwise;
}

inline int GetEnv(const char* name, int otherwise) {
  const char* text = Environment::Get()->find(name);
  return text ? std::atoi(text) : otherwise;
}

#ifndef DISALLOW_COPY_AND_ASSIGN
#define DISALLOW_COPY_AND_ASSIGN(T) \
  T(T const&) = delete;             \
  T& operator=(T const&) = delete
#endif

#define LL LOG(ERROR)

}  // namespace ps

#endif  // PS_INTERNAL_UTILS_H_
