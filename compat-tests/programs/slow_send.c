/* Preloaded: who has sent a message goes on only after 3 ms, when its answer is there. The
 * library's own threads go on at once. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef ssize_t (*sender)(int, const struct msghdr*, int);

ssize_t sendmsg(int socket, const struct msghdr* message, int flags) {
  static sender next;
  char name[16] = "";
  if (!next) *(void**)&next = dlsym(RTLD_NEXT, "sendmsg");
  const ssize_t sent = next(socket, message, flags);
  const int error = errno;
  pthread_getname_np(pthread_self(), name, sizeof name);
  if (strncmp(name, "pslite", 6) != 0) usleep(3000);
  errno = error;
  return sent;
}
