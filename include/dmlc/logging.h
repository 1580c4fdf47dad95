// dmlc/logging.h: CHECK, LOG and dmlc::Error, for programs that get them from ps-lite's folder. If
// the application has dmlc-core's own file of this name, that one is taken, whichever of the two is
// found first.
#ifndef PSLITE_DMLC_LOGGING_H_
#define PSLITE_DMLC_LOGGING_H_
#pragma GCC system_header

#if !defined(DMLC_LOGGING_H_) && defined(__has_include_next)
#if __has_include_next(<dmlc/logging.h>)
#include_next <dmlc/logging.h>
#endif
#endif

#ifndef DMLC_LOGGING_H_
#define DMLC_LOGGING_H_

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "dmlc/base.h"

#if DMLC_LOG_STACK_TRACE
#include <cxxabi.h>
#include <execinfo.h>
#endif

namespace dmlc {

// What a failed check throws.
struct Error : public std::runtime_error {
  explicit Error(const std::string& text) : std::runtime_error(text) {}
};

}  // namespace dmlc

#define DMLC_THROW_EXCEPTION noexcept(false)

#if DMLC_USE_GLOG
#include <glog/logging.h>

namespace dmlc {
inline void InitLogging(const char* argv0) { google::InitGoogleLogging(argv0); }
}  // namespace dmlc

#else

namespace dmlc {

// Nothing has to be prepared.
inline void InitLogging(const char*) {}

// The time of day as a log line begins with it.
class DateLogger {
 public:
  const char* HumanDate() {
    const time_t now = time(nullptr);
    struct tm parts;
    localtime_r(&now, &parts);
    snprintf(text_, sizeof text_, "%02d:%02d:%02d", parts.tm_hour % 100, parts.tm_min % 100,
             parts.tm_sec % 100);
    return text_;
  }

 private:
  char text_[12];
};

// One line on standard error, written when the statement ends.
class LogMessage {
 public:
  LogMessage(const char* file, int line) : stream_(std::cerr) {
    stream_ << "[" << date_.HumanDate() << "] " << file << ":" << line << ": ";
  }
  ~LogMessage() { stream_ << '\n'; }
  LogMessage(const LogMessage&) = delete;
  void operator=(const LogMessage&) = delete;

  std::ostream& stream() { return stream_; }

 protected:
  std::ostream& stream_;

 private:
  DateLogger date_;
};

// Makes a statement of type void out of a stream.
class LogMessageVoidify {
 public:
  void operator&(std::ostream&) {}
};

// Logs, then throws dmlc::Error with the same text.
class LogMessageFatal {
 public:
  LogMessageFatal(const char* file, int line) { text_ << file << ":" << line << ": "; }
  LogMessageFatal(const LogMessageFatal&) = delete;
  void operator=(const LogMessageFatal&) = delete;

  std::ostringstream& stream() { return text_; }

  ~LogMessageFatal() DMLC_THROW_EXCEPTION {
    DateLogger date;
    std::cerr << "[" << date.HumanDate() << "] " << text_.str() << StackTrace() << std::endl;
#if DMLC_LOG_FATAL_THROW
    throw Error(text_.str());
#else
    std::abort();
#endif
  }

 private:
  static std::string StackTrace() {
#if DMLC_LOG_STACK_TRACE
    void* frames[DMLC_LOG_STACK_TRACE_SIZE];
    const int count = backtrace(frames, DMLC_LOG_STACK_TRACE_SIZE);
    char** names = backtrace_symbols(frames, count);
    if (!names) return std::string();
    std::string text = "\n\nStack trace:";
    for (int i = 1; i < count; ++i) text += std::string("\n  ") + names[i];
    std::free(names);
    return text + "\n";
#else
    return std::string();
#endif
  }

  std::ostringstream text_;
};

template <typename T>
inline T CheckNotNull(const char* file, int line, const char* what, T pointer) {
  if (pointer == nullptr)
    LogMessageFatal(file, line).stream() << "Check failed: " << what << " != NULL ";
  return pointer;
}

}  // namespace dmlc

#define CHECK(x)                                                                       \
  (x) ? (void)0                                                                        \
      : dmlc::LogMessageVoidify() & dmlc::LogMessageFatal(__FILE__, __LINE__).stream() \
                                        << "Check failed: " #x << ' '
#define CHECK_LT(x, y) CHECK((x) < (y))
#define CHECK_GT(x, y) CHECK((x) > (y))
#define CHECK_LE(x, y) CHECK((x) <= (y))
#define CHECK_GE(x, y) CHECK((x) >= (y))
#define CHECK_EQ(x, y) CHECK((x) == (y))
#define CHECK_NE(x, y) CHECK((x) != (y))
#define CHECK_NOTNULL(x) dmlc::CheckNotNull(__FILE__, __LINE__, #x, x)

#ifdef NDEBUG
#define DCHECK(x) \
  while (false) CHECK(x)
#else
#define DCHECK(x) CHECK(x)
#endif
#define DCHECK_LT(x, y) DCHECK((x) < (y))
#define DCHECK_GT(x, y) DCHECK((x) > (y))
#define DCHECK_LE(x, y) DCHECK((x) <= (y))
#define DCHECK_GE(x, y) DCHECK((x) >= (y))
#define DCHECK_EQ(x, y) DCHECK((x) == (y))
#define DCHECK_NE(x, y) DCHECK((x) != (y))

#define LOG_INFO dmlc::LogMessage(__FILE__, __LINE__)
#define LOG_WARNING LOG_INFO
#define LOG_ERROR LOG_INFO
#define LOG_FATAL dmlc::LogMessageFatal(__FILE__, __LINE__)
#define LOG_QFATAL LOG_FATAL
#define VLOG(x) LOG_INFO.stream()

#define LOG(severity) LOG_##severity.stream()
#define LG LOG_INFO.stream()
#define LOG_IF(severity, condition) \
  !(condition) ? (void)0 : dmlc::LogMessageVoidify() & LOG(severity)

#ifdef NDEBUG
#define LOG_DFATAL LOG_ERROR
#define DFATAL ERROR
#define DLOG(severity) true ? (void)0 : dmlc::LogMessageVoidify() & LOG(severity)
#define DLOG_IF(severity, condition) \
  (true || !(condition)) ? (void)0 : dmlc::LogMessageVoidify() & LOG(severity)
#else
#define LOG_DFATAL LOG_FATAL
#define DFATAL FATAL
#define DLOG(severity) LOG(severity)
#define DLOG_IF(severity, condition) LOG_IF(severity, condition)
#endif

// Every time, as upstream.
#define LOG_EVERY_N(severity, n) LOG(severity)

#endif  // DMLC_USE_GLOG
#endif  // DMLC_LOGGING_H_
#endif  // PSLITE_DMLC_LOGGING_H_
