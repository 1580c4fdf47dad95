// ps/base.h: keys, and the ids of groups.
#ifndef PS_BASE_H_
#define PS_BASE_H_

#include <cstdint>
#include <limits>

#include "ps/internal/utils.h"

namespace ps {

#if defined(USE_KEY32) && USE_KEY32
#error "pslite's keys have 64 bits, on the wire and in its C ABI: build without USE_KEY32"
#endif

// A key: 64 bits, as upstream's default.
typedef uint64_t Key;
static const Key kMaxKey = std::numeric_limits<Key>::max();

// Groups; sums of them are groups too.
static const int kScheduler = 1;
static const int kServerGroup = 2;
static const int kWorkerGroup = 4;

}  // namespace ps

#endif  // PS_BASE_H_
