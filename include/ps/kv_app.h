// ps/kv_app.h: keys and values: KVWorker pushes and pulls, KVServer answers.
#ifndef PS_KV_APP_H_
#define PS_KV_APP_H_

// Upstream's has all of these; programs count on them.
#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ps/base.h"
#include "ps/internal/kv_pairs.h"
#include "ps/internal/kv_server.h"
#include "ps/internal/kv_worker.h"
#include "ps/simple_app.h"

#endif  // PS_KV_APP_H_
