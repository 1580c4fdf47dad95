// The loaded libmxnet.so. It is not in the global scope (Python loads it locally), so its symbols
// are found through a handle of the loaded library: by its SONAME, or where it has none (1.7) by
// the name of its file.
#include "wheel.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

namespace pslite_mxnet {

namespace {

const char kFile[] = "/libmxnet.so";

int find_file(struct dl_phdr_info* info, size_t, void* path) {
  const size_t length = info->dlpi_name ? strlen(info->dlpi_name) : 0;
  if (length + 1 < sizeof kFile) return 0;
  if (strcmp(info->dlpi_name + length + 1 - sizeof kFile, kFile) != 0) return 0;
  static_cast<std::string*>(path)->assign(info->dlpi_name);
  return 1;
}

void* wheel_handle() {
  // Never closed: the wheel stays as long as we do.
  if (void* handle = dlopen("libmxnet.so", RTLD_NOLOAD | RTLD_LAZY)) return handle;
  std::string path;
  if (!dl_iterate_phdr(find_file, &path)) return nullptr;
  return dlopen(path.c_str(), RTLD_NOLOAD | RTLD_LAZY);
}

}  // namespace

void* wheel_symbol(const char* name) {
  void* handle = wheel_handle();
  return handle ? dlsym(handle, name) : nullptr;
}

size_t symbol_size(const void* address) {
  Dl_info info;
  void* entry = nullptr;
  if (!address || !dladdr1(address, &info, &entry, RTLD_DL_SYMENT) || !entry) return 0;
  return info.dli_saddr == address ? static_cast<const ElfW(Sym)*>(entry)->st_size : 0;
}

std::string wheel_path() {
  void* handle = wheel_handle();
  struct link_map* map = nullptr;
  if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &map) || !map || !map->l_name) return "";
  return map->l_name;
}

const char* setting(void*, const char* name) {
  typedef void* (*Get)();
  typedef const char* (*Find)(void*, const char*);
  const Get get = reinterpret_cast<Get>(wheel_symbol("_ZN2ps11Environment3GetEv"));
  const Find find = reinterpret_cast<Find>(wheel_symbol("_ZN2ps11Environment4findEPKc"));
  if (get && find) {
    if (void* environment = get()) return find(environment, name);
  }
  return getenv(name);
}

}  // namespace pslite_mxnet
