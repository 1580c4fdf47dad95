/* Holds the frames of links back: delay, jitter and loss, for a kernel without netem.
 *
 *     delay PARAMETERS IN OUT [IN OUT ...]
 *
 * What comes in at IN leaves at OUT after the time of that link's direction, and the other way
 * round. PARAMETERS is a file of three doubles for each direction: delay and jitter in
 * milliseconds, loss from 0 to 1 (delays.py writes it, and starts this). It is mapped, so what is
 * written there counts from the next frame on. Prints a line when it is ready; ends by a signal.
 *
 * The kernel hands over segments of TCP in batches, as to a network card (virtio_net_hdr). They go
 * on as batches: a packet at a time would cost a whole processor. Each segment may be lost by
 * itself: what is before and after it goes on as smaller batches. Frames never overtake each other.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINKS_MAX 4096
#define FRAME_MAX (sizeof(struct virtio_net_hdr) + 14 + 65536)
/* What one direction holds at most. More is lost, as in a full buffer. */
#define HELD_MAX (128u << 20)
#define SOCKET_BYTES (32 << 20)
/* Frames from one direction before the others have their turn. */
#define TURN 64

struct parameters { double delay, jitter, loss; };

struct held { uint64_t due; struct held *next; unsigned length; unsigned char bytes[]; };

struct direction {
  int in, out;
  const volatile struct parameters *now;
  uint64_t last;
  size_t bytes;
  struct held *head, *tail;
};

static struct direction directions[2 * LINKS_MAX];
static int count;

static void fail(const char *what) {
  fprintf(stderr, "delay: %s: %s\n", what, strerror(errno));
  exit(1);
}

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int packets(const char *device) {
  int one = 1, size = SOCKET_BYTES;
  int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one) ||
      setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one))
    fail("no packet socket");
  /* By default a socket holds too little. */
  setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
  setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
  struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
  address.sll_ifindex = (int)if_nametoindex(device);
  if (address.sll_ifindex == 0 || bind(fd, (void *)&address, sizeof address)) fail(device);
  return fd;
}

/* ---- what is held */

static void hold(struct direction *to, uint64_t due, const unsigned char *bytes, unsigned length) {
  if (to->bytes + length > HELD_MAX) return;
  struct held *one = malloc(sizeof *one + length);
  if (!one) return;
  one->due = due;
  one->next = NULL;
  one->length = length;
  memcpy(one->bytes, bytes, length);
  if (to->tail) to->tail->next = one; else to->head = one;
  to->tail = one;
  to->bytes += length;
}

static void release(struct direction *from, uint64_t time) {
  struct held *one;
  while ((one = from->head) && one->due <= time) {
    /* Without room there, it is lost, as in a full buffer. */
    ssize_t sent = send(from->out, one->bytes, one->length, 0);
    (void)sent;
    from->head = one->next;
    if (!from->head) from->tail = NULL;
    from->bytes -= one->length;
    free(one);
  }
}

/* ---- losses */

static uint32_t sum(uint32_t start, const unsigned char *bytes, unsigned length) {
  for (; length > 1; bytes += 2, length -= 2) start += (uint32_t)(bytes[0] << 8 | bytes[1]);
  while (start >> 16) start = (start & 0xffff) + (start >> 16);
  return start;
}

/* A batch of segments of TCP over IPv4: where its parts are. */
struct batch { unsigned ip, tcp, data, segment, segments; };

static int is_batch(const unsigned char *frame, unsigned length, struct batch *found) {
  struct virtio_net_hdr header;
  memcpy(&header, frame, sizeof header);
  unsigned type = header.gso_type & ~(unsigned)VIRTIO_NET_HDR_GSO_ECN;
  if (type != VIRTIO_NET_HDR_GSO_TCPV4 || header.gso_size == 0) return 0;
  found->ip = sizeof header + 14;
  found->tcp = sizeof header + header.csum_start;
  if (length < found->ip + sizeof(struct iphdr) || length < found->tcp + sizeof(struct tcphdr))
    return 0;
  found->data = found->tcp + 4u * (frame[found->tcp + 12] >> 4);
  found->segment = header.gso_size;
  if (length <= found->data) return 0;
  found->segments = (length - found->data + found->segment - 1) / found->segment;
  return 1;
}

/* Holds the segments from `first` up to `end`, that one not included. */
static void hold_part(struct direction *to, uint64_t due, const unsigned char *frame,
                      unsigned length, const struct batch *batch, unsigned first, unsigned end) {
  static unsigned char part[FRAME_MAX];
  unsigned from = batch->data + first * batch->segment, until = batch->data + end * batch->segment;
  if (until > length) until = length;
  unsigned bytes = batch->data + (until - from);
  memcpy(part, frame, batch->data);
  memcpy(part + batch->data, frame + from, until - from);
  struct virtio_net_hdr header;
  memcpy(&header, part, sizeof header);
  if (end - first == 1) header.gso_type = VIRTIO_NET_HDR_GSO_NONE, header.gso_size = 0;
  memcpy(part, &header, sizeof header);
  struct iphdr ip;
  memcpy(&ip, part + batch->ip, sizeof ip);
  ip.tot_len = htons((uint16_t)(bytes - batch->ip));
  ip.id = htons((uint16_t)(ntohs(ip.id) + first));
  ip.check = 0;
  memcpy(part + batch->ip, &ip, sizeof ip);
  ip.check = htons((uint16_t)~sum(0, part + batch->ip, batch->tcp - batch->ip));
  memcpy(part + batch->ip, &ip, sizeof ip);
  struct tcphdr tcp;
  memcpy(&tcp, part + batch->tcp, sizeof tcp);
  tcp.seq = htonl(ntohl(tcp.seq) + first * batch->segment);
  if (end < batch->segments) tcp.fin = tcp.psh = 0;
  /* The kernel, or whoever needs it, adds the rest to the sum of addresses and length. */
  uint32_t pseudo = sum(IPPROTO_TCP + (bytes - batch->tcp), (void *)&ip.saddr, 8);
  tcp.check = htons((uint16_t)pseudo);
  memcpy(part + batch->tcp, &tcp, sizeof tcp);
  hold(to, due, part, bytes);
}

static void take(struct direction *at, const unsigned char *frame, unsigned length) {
  struct parameters is = {at->now->delay, at->now->jitter, at->now->loss};
  uint64_t due = now() + (uint64_t)((is.delay + is.jitter * drand48()) * 1e6);
  if (due < at->last) due = at->last;
  at->last = due;
  struct batch batch = {.segments = 1};
  int batched = is.loss > 0 && is_batch(frame, length, &batch);
  unsigned begun = 0;
  for (unsigned segment = 0; is.loss > 0 && segment < batch.segments; segment++) {
    if (drand48() >= is.loss) continue;
    if (segment > begun) hold_part(at, due, frame, length, &batch, begun, segment);
    begun = segment + 1;
  }
  if (begun == 0) hold(at, due, frame, length);
  else if (batched && begun < batch.segments)
    hold_part(at, due, frame, length, &batch, begun, batch.segments);
}

static void map(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat file;
  if (fd < 0 || fstat(fd, &file)) fail(path);
  errno = EINVAL;
  size_t bytes = (size_t)count * sizeof(struct parameters);
  if ((size_t)file.st_size != bytes) fail(path);
  const struct parameters *all = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (all == MAP_FAILED) fail(path);
  for (int number = 0; number < count; number++) directions[number].now = all + number;
}

int main(int words, char **word) {
  static unsigned char frame[FRAME_MAX];
  static struct pollfd polled[2 * LINKS_MAX];
  if (words < 4 || words % 2 || words / 2 - 1 > LINKS_MAX) {
    fprintf(stderr, "delay PARAMETERS IN OUT [IN OUT ...]\n");
    return 2;
  }
  for (int at = 2; at < words; at += 2) {
    int one = packets(word[at]), other = packets(word[at + 1]);
    directions[count++] = (struct direction){.in = one, .out = other};
    directions[count++] = (struct direction){.in = other, .out = one};
  }
  map(word[1]);
  /* A frame must not wait for other processes of this machine; where that is not allowed, it
   * may. */
  struct sched_param first = {.sched_priority = 1};
  sched_setscheduler(0, SCHED_FIFO, &first);
  for (int at = 0; at < count; at++) polled[at] = (struct pollfd){directions[at].in, POLLIN, 0};
  puts("ready");
  fflush(stdout);
  for (;;) {
    uint64_t due = UINT64_MAX, time = now();
    for (int at = 0; at < count; at++)
      if (directions[at].head && directions[at].head->due < due) due = directions[at].head->due;
    uint64_t left = due > time ? due - time : 0;
    struct timespec wait = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
    int ready = ppoll(polled, (nfds_t)count, due == UINT64_MAX ? NULL : &wait, NULL);
    if (ready < 0 && errno != EINTR) fail("ppoll");
    for (int at = 0; ready > 0 && at < count; at++) {
      for (int turn = 0; polled[at].revents && turn < TURN; turn++) {
        ssize_t length = recv(polled[at].fd, frame, sizeof frame, MSG_TRUNC);
        if (length < (ssize_t)sizeof(struct virtio_net_hdr) + 14) break;
        if ((size_t)length <= sizeof frame) take(&directions[at], frame, (unsigned)length);
      }
    }
    time = now();
    for (int at = 0; at < count; at++) release(&directions[at], time);
  }
}
