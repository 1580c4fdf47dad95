// Linked to the ps-lite inside BytePS's archive, with the linker's --wrap (byteps_stock.py): a
// thread that finds no message rests before it looks again. As it is it looks again at once, and
// holds the lock that senders wait for: five nodes on two cores took a minute to start. What it
// sends and how it answers stays as it is.
#include <cerrno>
#include <ctime>

namespace {

const long kRest = 200000;  // nanoseconds
thread_local bool found_none = false;

}  // namespace

extern "C" int __real_zmq_msg_recv(void* message, void* socket, int flags);
extern "C" int __real_pthread_mutex_unlock(void* mutex);

extern "C" int __wrap_zmq_msg_recv(void* message, void* socket, int flags) {
  const int size = __real_zmq_msg_recv(message, socket, flags);
  found_none = size < 0 && errno == EAGAIN;
  return size;
}

// The next lock that the thread gives back is the one that it held meanwhile.
extern "C" int __wrap_pthread_mutex_unlock(void* mutex) {
  const int result = __real_pthread_mutex_unlock(mutex);
  if (found_none) {
    found_none = false;
    const int before = errno;
    const timespec rest = {0, kRest};
    nanosleep(&rest, nullptr);
    errno = before;
  }
  return result;
}
