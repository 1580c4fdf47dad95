// raw_tcp: the floor below kv_bench. The same bytes as its pushes and pulls, between two processes
// of one host over one TCP connection, with nothing on top: no keys, no threads, no callbacks.
//
//   raw_tcp SECONDS [apart]
//
// After SECONDS it ends, whatever happens. With `apart` the two processes run on a core each.
// Without, the system decides: on one core nobody has to wake another core, and a round trip takes
// a third of the time; but it may move them apart at any moment. It forks its server and takes
// kv_bench's lines, from standard input, and answers alike:
//
//   OP BYTES WINDOW COUNT   OP is push (BYTES up, a small answer down) or pull (a small request up,
//                           BYTES down); WINDOW are under way at a time; COUNT of them are measured
//   end
//
// Both sides are what one would write by hand: one gathered write for a message, small messages
// read several at a time through a buffer, large ones straight to where they belong, blocking
// sockets without delay. As in kv_bench there are 16 arrays of each size on both sides, so that
// large ones come from memory and not from a cache, and all that arrives is compared with what was
// sent.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

const int kArrays = 16;
const size_t kBuffer = 64 << 10;
const size_t kLongest = 256u << 20;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "raw_tcp: %s\n", what.c_str());
  std::_Exit(1);
}

enum Op : uint32_t { kPush, kPull };

// What stands before the values. As long as what our native frames have there, about: lengths,
// metadata, key.
struct Head {
  uint64_t size;     // of the whole array
  uint64_t payload;  // bytes that follow
  uint32_t op, array;
  char rest[104];
};
static_assert(sizeof(Head) == 128, "Head");

// The arrays of one size.
typedef std::vector<std::vector<char>> Arrays;

class Stream {
 public:
  explicit Stream(int socket) : socket_(socket), buffer_(kBuffer), start_(0), end_(0) {
    const int on = 1;
    if (setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on)) fail("TCP_NODELAY");
  }

  void send(const Head& head, const char* payload) {
    iovec parts[2] = {{const_cast<Head*>(&head), sizeof head},
                      {const_cast<char*>(payload), head.payload}};
    size_t left = sizeof head + head.payload;
    iovec* part = parts;
    while (left > 0) {
      msghdr message = msghdr();
      message.msg_iov = part;
      message.msg_iovlen = size_t(parts + 2 - part);
      const ssize_t n = sendmsg(socket_, &message, MSG_NOSIGNAL);
      if (n <= 0) fail("the connection broke in a write");
      left -= size_t(n);
      for (size_t done = size_t(n); part < parts + 2 && done > 0;) {
        const size_t step = std::min(done, part->iov_len);
        part->iov_base = static_cast<char*>(part->iov_base) + step;
        part->iov_len -= step;
        done -= step;
        if (part->iov_len == 0) ++part;
      }
    }
  }

  // The next head; false at the end of the connection.
  bool head(Head* head) {
    while (end_ - start_ < sizeof *head) {
      if (start_ > 0) {
        std::memmove(buffer_.data(), buffer_.data() + start_, end_ - start_);
        end_ -= start_;
        start_ = 0;
      }
      const ssize_t n = recv(socket_, buffer_.data() + end_, buffer_.size() - end_, 0);
      if (n <= 0) return false;
      end_ += size_t(n);
    }
    std::memcpy(head, buffer_.data() + start_, sizeof *head);
    start_ += sizeof *head;
    return true;
  }

  // What follows a head.
  void payload(char* to, size_t size) {
    const size_t here = std::min(size, end_ - start_);
    std::memcpy(to, buffer_.data() + start_, here);
    start_ += here;
    for (size_t done = here; done < size;) {
      const ssize_t n = recv(socket_, to + done, size - done, 0);
      if (n <= 0) fail("the connection broke in a message");
      done += size_t(n);
    }
  }

 private:
  const int socket_;
  std::vector<char> buffer_;
  size_t start_, end_;
};

Arrays& arrays_of(std::map<uint64_t, Arrays>* all, uint64_t size) {
  Arrays& arrays = (*all)[size];
  if (arrays.empty()) arrays.assign(kArrays, std::vector<char>(size));
  return arrays;
}

void serve(int socket) {
  Stream stream(socket);
  std::map<uint64_t, Arrays> all;
  Head head;
  while (stream.head(&head)) {
    if (head.size > kLongest || head.array >= kArrays) fail("not a message of ours");
    std::vector<char>& array = arrays_of(&all, head.size)[head.array];
    if (head.payload > 0) stream.payload(array.data(), array.size());
    head.payload = head.op == kPull ? head.size : 0;
    stream.send(head, array.data());
  }
}

class Worker {
 public:
  explicit Worker(int socket) : stream_(socket) {}

  void run() {
    std::string line;
    while (std::getline(std::cin, line) && line != "end") obey(line);
    std::printf("{\"rank\": 0, \"requests\": %ld, \"library\": \"raw\"}\n", requests_);
  }

 private:
  void obey(const std::string& line) {
    static const std::map<std::string, Op> ops = {{"push", kPush}, {"pull", kPull}};
    std::istringstream words(line);
    std::string name;
    size_t bytes = 0;
    int window = 0, count = 0;
    words >> name >> bytes >> window >> count;
    if (!words || !ops.count(name) || bytes < 4 || bytes > kLongest || window < 1 ||
        window > kArrays || count < 1) {
      fail("not a command: " + line);
    }
    use_arrays(bytes);
    const Op op = ops.at(name);
    if (op == kPull) spoil();
    requests(op, window, std::max(kArrays, count / 10));  // warm-up, as kv_bench
    const double begin = now();
    requests(op, window, count);
    const double seconds = now() - begin;
    if (op == kPush) {
      spoil();
      requests(kPull, 1, kArrays);
    }
    check(line);
    std::printf("{\"ops_per_s\": %.2f, \"seconds\": %.6f}\n", count / seconds, seconds);
    std::fflush(stdout);
  }

  void use_arrays(size_t bytes) {
    const bool known = all_.count(bytes);
    arrays_ = &arrays_of(&all_, bytes);
    if (known) return;
    for (int i = 0; i < kArrays; ++i)
      std::fill((*arrays_)[i].begin(), (*arrays_)[i].end(), mark(i));
    requests(kPush, 1, kArrays);
  }

  void requests(Op op, int window, int count) {
    for (int i = 0; i < count; ++i) {
      if (i >= window) answer();
      std::vector<char>& array = (*arrays_)[i % kArrays];
      Head head = Head();
      head.size = array.size();
      head.payload = op == kPush ? array.size() : 0;
      head.op = op;
      head.array = uint32_t(i % kArrays);
      stream_.send(head, array.data());
      ++requests_;
    }
    for (int i = std::max(0, count - window); i < count; ++i) answer();
  }

  void answer() {
    Head head;
    if (!stream_.head(&head)) fail("the server ended");
    std::vector<char>& array = (*arrays_)[head.array];
    if (head.payload > 0) stream_.payload(array.data(), array.size());
  }

  static char mark(int i) { return char(1 + (i * 31) % 126); }

  void spoil() {
    for (std::vector<char>& array : *arrays_) std::fill(array.begin(), array.end(), 0);
  }

  void check(const std::string& line) const {
    for (int i = 0; i < kArrays; ++i) {
      const std::vector<char>& array = (*arrays_)[i];
      if (!std::all_of(array.begin(), array.end(), [i](char c) { return c == mark(i); })) {
        fail(line + ": what came back is not what was sent");
      }
    }
  }

  Stream stream_;
  std::map<uint64_t, Arrays> all_;
  Arrays* arrays_ = nullptr;
  long requests_ = 0;
};

// Keeps this process on one core: the first or the last of those it may use.
void keep_to_core(bool first) {
  cpu_set_t allowed, one;
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof allowed, &allowed)) fail("sched_getaffinity");
  if (CPU_COUNT(&allowed) < 2) fail("there is one core only");
  int core = first ? 0 : CPU_SETSIZE - 1;
  while (!CPU_ISSET(core, &allowed)) core += first ? 1 : -1;
  CPU_SET(core, &one);
  if (sched_setaffinity(0, sizeof one, &one)) fail("sched_setaffinity");
}

sockaddr_in loopback() {
  sockaddr_in address = sockaddr_in();
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace

int main(int argc, char** argv) {
  const bool apart = argc == 3 && !std::strcmp(argv[2], "apart");
  const int limit = argc == 2 || apart ? std::atoi(argv[1]) : 0;
  if (limit <= 0) fail("usage: raw_tcp SECONDS [apart]");
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = loopback();
  socklen_t length = sizeof address;
  sockaddr* any = reinterpret_cast<sockaddr*>(&address);
  if (listener < 0 || bind(listener, any, length) || listen(listener, 1) ||
      getsockname(listener, any, &length)) {
    fail("cannot listen");
  }
  const pid_t server = fork();
  if (server < 0) fail("cannot fork");
  alarm(unsigned(limit));
  if (apart) keep_to_core(server == 0);
  if (server == 0) {
    serve(accept(listener, nullptr, nullptr));
    return 0;
  }
  close(listener);
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  if (connection < 0 || connect(connection, any, length)) fail("cannot connect");
  Worker(connection).run();
  close(connection);
  int status = 0;
  if (waitpid(server, &status, 0) != server || status != 0) fail("the server failed");
  return 0;
}
