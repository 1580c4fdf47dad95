/* Preloaded: a resolver to which the name of LATE_NAME is unknown until the file of LATE_FILE is
 * there, and then 127.0.0.1. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int (*resolver)(const char*, const char*, const struct addrinfo*, struct addrinfo**);

int getaddrinfo(const char* node, const char* service, const struct addrinfo* hints,
                struct addrinfo** found) {
  static resolver next;
  const char* name = getenv("LATE_NAME");
  const char* file = getenv("LATE_FILE");
  if (!next) *(void**)&next = dlsym(RTLD_NEXT, "getaddrinfo");
  if (node && name && file && strcmp(node, name) == 0) {
    if (access(file, F_OK) != 0) return EAI_NONAME;
    node = "127.0.0.1";
  }
  return next(node, service, hints, found);
}
