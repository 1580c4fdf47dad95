// relink.h: what the programs relink_*.cc share: checks that end the process, and the end of a
// program.
#ifndef PSLITE_COMPAT_TESTS_RELINK_H_
#define PSLITE_COMPAT_TESTS_RELINK_H_

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <sstream>
#include <string>

inline void require(bool is_so, const std::string& what) {
  if (is_so) return;
  std::fprintf(stderr, "wrong: %s\n", what.c_str());
  std::fflush(nullptr);
  std::_Exit(2);
}

template <typename A, typename B>
void require_equal(const A& got, const B& wanted, const std::string& what) {
  if (got == static_cast<A>(wanted)) return;
  std::ostringstream text;
  text << what << ": got " << got << ", wanted " << wanted;
  require(false, text.str());
}

// What `call` throws, as text.
template <typename Call>
std::string thrown_by(const Call& call, const std::string& what) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  require(false, what + ": nothing was thrown");
  return std::string();
}

inline void require_text(const std::string& text, const std::string& part,
                         const std::string& what) {
  require(text.find(part) != std::string::npos, what + ": \"" + part + "\" is not in: " + text);
}

// The last line of every program that got to its end.
inline int all_is_right() {
  std::puts("all is right");
  return 0;
}

inline int setting(const char* name) { return std::atoi(std::getenv(name)); }

#endif  // PSLITE_COMPAT_TESTS_RELINK_H_
