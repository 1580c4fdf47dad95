// The guard. The layouts of layout.h are those of GCC 4.8 with the old string ABI; a libmxnet from
// another compiler has other ones, and writing to its objects would corrupt them. So before the
// first touch the symbol table of the loaded libmxnet is looked at: sizes tell the layouts, mangled
// names tell the string ABI and the signatures. See docs/mxnet-wheels.md.
#include "guard.h"

#include <cstdio>
#include <stdexcept>

#include "pslite.h"
#include "wheel.h"

namespace pslite_mxnet {

namespace {

struct Expected {
  const char* name;
  size_t size;  // 0: any
  const char* meaning;
};

const Expected kExpected[] = {
    // A build of GCC 5 or later has 592: its std::unordered_map is 8 bytes larger.
    {"_ZZN2ps10Postoffice3GetEvE1e", 560, "the ps::Postoffice"},
    {"_ZTVN2ps8KVWorkerIcEE", 88, "the vtable of ps::KVWorker<char>"},
    {"_ZTVN2ps8KVServerIcEE", 88, "the vtable of ps::KVServer<char>"},
    {"_ZN2ps3Van6CreateERKSs", 0, "the old string ABI"},
    {"_ZN2ps10PostofficeC1Ev", 0, "the constructor of ps::Postoffice"},
    {"_ZN2ps10Postoffice5StartEiPKcb", 0, "ps::Postoffice::Start"},
    {"_ZN2ps10Postoffice8FinalizeEib", 0, "ps::Postoffice::Finalize"},
    {"_ZN2ps10Postoffice7BarrierEii", 0, "ps::Postoffice::Barrier"},
    {"_ZN2ps10Postoffice18GetServerKeyRangesEv", 0, "ps::Postoffice::GetServerKeyRanges"},
    {"_ZNK2ps10Postoffice10GetNodeIDsEi", 0, "ps::Postoffice::GetNodeIDs"},
    {"_ZN2ps10Postoffice12GetDeadNodesEi", 0, "ps::Postoffice::GetDeadNodes"},
    {"_ZNK2ps3Van7my_nodeEv", 0, "ps::Van::my_node"},
    {"_ZN2ps8CustomerC1EiiRKSt8functionIFvRKNS_7MessageEEE", 0, "the constructor of ps::Customer"},
    // ps-lite of MXNet 1.6 and before has no priority here.
    {"_ZN2ps8KVWorkerIcE5ZPushERKNS_6SArrayImEERKNS2_IcEERKNS2_IiEEiRKSt8functionIFvvEEi", 0,
     "ps::KVWorker<char>::ZPush with a priority"},
    {"_ZN2ps8KVWorkerIcE4SendEibbiRKNS_7KVPairsIcEE", 0, "ps::KVWorker<char>::Send"},
    {"_ZN2ps8KVWorkerIcE9AddPullCBINS_6SArrayIcEENS3_IiEEEEiRKNS3_ImEEPT_PT0_iRKSt8functionIFvvEE",
     0, "ps::KVWorker<char>::AddPullCB"},
    {"_ZN2ps8KVServerIcE8ResponseERKNS_6KVMetaERKNS_7KVPairsIcEE", 0,
     "ps::KVServer<char>::Response"},
};

std::string look() {
  const std::string path = wheel_path();
  if (path.empty()) {
    return "pslite: something calls ps-lite, but no libmxnet.so is loaded in this process";
  }
  for (const Expected& expected : kExpected) {
    void* symbol = wheel_symbol(expected.name);
    const size_t size = symbol ? symbol_size(symbol) : 0;
    if (symbol && (!expected.size || size == expected.size)) continue;
    char what[160];
    if (symbol) {
      snprintf(what, sizeof what, "%s has %zu bytes, not %zu", expected.meaning, size,
               expected.size);
    } else {
      snprintf(what, sizeof what, "%s is missing", expected.meaning);
    }
    return "pslite: " + path + " is not a build of MXNet that this library knows: " + what +
           " (symbol " + expected.name + "). Run without the preload, or with a wheel that " +
           "docs/mxnet-wheels.md lists.";
  }
  return "";
}

}  // namespace

const std::string& unknown_wheel() {
  // Never destroyed: asked for until the very end of the process.
  static const std::string& text = *new std::string(look());
  return text;
}

void refuse_unknown_wheel() {
  if (!unknown_wheel().empty()) throw std::runtime_error(unknown_wheel());
}

}  // namespace pslite_mxnet
