// dmlc/base.h: the switches of dmlc's logging, for programs that get them from ps-lite's folder. If
// the application has dmlc-core's own file of this name, that one is taken, whichever of the two is
// found first.
#ifndef PSLITE_DMLC_BASE_H_
#define PSLITE_DMLC_BASE_H_
#pragma GCC system_header

#if !defined(DMLC_BASE_H_) && defined(__has_include_next)
#if __has_include_next(<dmlc/base.h>)
#include_next <dmlc/base.h>
#endif
#endif

#ifndef DMLC_BASE_H_
#define DMLC_BASE_H_

#ifndef DMLC_USE_GLOG
#define DMLC_USE_GLOG 0
#endif

// Failed checks throw dmlc::Error; 0: they end the process.
#ifndef DMLC_LOG_FATAL_THROW
#define DMLC_LOG_FATAL_THROW 1
#endif

#if !defined(DMLC_LOG_STACK_TRACE) && defined(__GLIBC__)
#define DMLC_LOG_STACK_TRACE 1
#endif
#ifndef DMLC_LOG_STACK_TRACE
#define DMLC_LOG_STACK_TRACE 0
#endif
#ifndef DMLC_LOG_STACK_TRACE_SIZE
#define DMLC_LOG_STACK_TRACE_SIZE 10
#endif

#ifndef DMLC_USE_CXX11
#define DMLC_USE_CXX11 1
#endif

#include <cstddef>
#include <string>
#include <vector>

#ifndef DISALLOW_COPY_AND_ASSIGN
#define DISALLOW_COPY_AND_ASSIGN(T) \
  T(T const&) = delete;             \
  T& operator=(T const&) = delete
#endif

namespace dmlc {

// The address of the first element; null if there is none.
template <typename T>
inline T* BeginPtr(std::vector<T>& vec) {
  return vec.empty() ? nullptr : vec.data();
}
template <typename T>
inline const T* BeginPtr(const std::vector<T>& vec) {
  return vec.empty() ? nullptr : vec.data();
}
inline char* BeginPtr(std::string& text) { return text.empty() ? nullptr : &text[0]; }
inline const char* BeginPtr(const std::string& text) {
  return text.empty() ? nullptr : text.data();
}

}  // namespace dmlc

#endif  // DMLC_BASE_H_
#endif  // PSLITE_DMLC_BASE_H_
