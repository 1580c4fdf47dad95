/* pslite.h: the C ABI of pslite.
 *
 * Everything that pslite offers to other languages is here; the C++ headers, the preload library
 * and the Python package are layers over it. C99 and C++11.
 *
 * Conventions
 * - A function returns PSLITE_OK (0) or a negative pslite_status. The text of the last failure on
 *   the calling thread is pslite_last_error(), valid until the next call on that thread.
 * - Nothing throws, nothing aborts: a panic inside becomes PSLITE_PANIC.
 * - `pslite_x* ` returned through an out parameter is owned by the caller until pslite_x_free.
 * - Memory that is lent to the library is a pslite_buffer: the library calls release(release_arg)
 *   exactly once, from any thread, also if the call fails. release may be NULL: then the caller
 *   keeps the memory unchanged until the request has ended.
 * - Callbacks run on threads of the library; each says which.
 * - In a child of fork() whose parent has a node, every call that needs a node or makes one fails
 *   with PSLITE_INVALID_ARGUMENT and a text that names the parent; stop and free do nothing. The
 *   library's sockets are closed there. Children of vfork() and posix_spawn() have none either.
 */
#ifndef PSLITE_H_
#define PSLITE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- version, errors ---------------------------------------------------------------------- */

/* Grows with every change of this header that adds to it; the major number with every change that
 * breaks. */
#define PSLITE_ABI_VERSION 9

typedef enum pslite_status {
  PSLITE_OK = 0,
  PSLITE_INVALID_ARGUMENT = -1, /* NULL, a bad number, keys that are not sorted, ... */
  PSLITE_CONFIG = -2,           /* the environment lacks a variable or holds nonsense */
  PSLITE_ADDRESS = -3,          /* a name does not resolve, a port is busy, no interface */
  PSLITE_NOT_STARTED = -4,      /* the call needs a started node */
  PSLITE_PEER_LOST = -5,        /* a node that the call depends on is gone */
  PSLITE_TIMEOUT = -6,          /* a limit that the user set has passed */
  PSLITE_REMOTE = -7,           /* the peer answered that the request failed */
  PSLITE_STOPPED = -8,          /* the node was finalized meanwhile */
  PSLITE_PROTOCOL = -9,         /* an answer does not fit the request */
  PSLITE_PANIC = -100           /* a bug in pslite, caught at the border */
} pslite_status;

uint32_t pslite_abi_version(void);
const char* pslite_version(void);
const char* pslite_last_error(void);

/* ---- shared shapes ------------------------------------------------------------------------ */

/* 64-bit keys, as stock is built. */
typedef uint64_t pslite_key;

typedef struct pslite_range {
  uint64_t begin;
  uint64_t end;
} pslite_range;

/* Buffers of at most that many bytes are copied before the call returns. */
enum { PSLITE_COPIED = 256 };

/* Memory lent to the library; see the conventions. */
typedef struct pslite_buffer {
  const void* data;
  size_t size; /* bytes */
  void (*release)(void* release_arg);
  void* release_arg;
} pslite_buffer;

/* Memory of the library, seen by a callback. */
typedef struct pslite_slice {
  const void* data;
  size_t size; /* bytes */
} pslite_slice;

/* Keys (8 bytes each), values, and optionally lens (int32 each, in values). */
typedef struct pslite_kv {
  pslite_buffer keys;
  pslite_buffer vals;
  pslite_buffer lens; /* size 0: none */
} pslite_kv;

/* What the server of that rank gets of a request. */
typedef struct pslite_part {
  int32_t rank;
  pslite_kv kv;
} pslite_part;

/* An array in a message. data_type: 0 char, 1 to 4 int8 to int64, 5 to 8 uint8 to uint64, 9 float,
 * 10 double, 11 other (ps::DataType). Nobody checks it: 11 is always right. */
typedef struct pslite_frame {
  pslite_buffer buffer;
  int32_t data_type;
} pslite_frame;

/* Where the values of a message lie at its sender, and where that wants them at its receiver: for
 * applications, no byte goes to a device by it. Types: 0 unknown, 1 CPU, 2 GPU (ps::DeviceType). */
typedef struct pslite_devices {
  int32_t src_type;
  int32_t src_id;
  int32_t dst_type;
  int32_t dst_id;
} pslite_devices;

enum { PSLITE_SERVER = 0, PSLITE_WORKER = 1, PSLITE_SCHEDULER = 2 };

/* The "not set" value of every int field of the wire. */
enum { PSLITE_EMPTY = 2147483647 };

/* Group bits; sums of them are groups. */
enum {
  PSLITE_GROUP_SCHEDULER = 1,
  PSLITE_GROUP_SERVERS = 2,
  PSLITE_GROUP_WORKERS = 4,
  PSLITE_GROUP_ALL = 7
};

/* The metadata of a message. `body` belongs to the message. */
typedef struct pslite_meta {
  int32_t head;
  int32_t app_id;
  int32_t customer_id;
  int32_t timestamp;
  int32_t sender;
  int32_t recver;
  int32_t priority;
  uint8_t request;
  uint8_t push;
  uint8_t pull;
  uint8_t simple_app;
  const char* body;
  size_t body_size;
  const char* error; /* NULL, or why the peer could not serve the request */
} pslite_meta;

/* ---- the node: one scheduler, server or worker -------------------------------------------- */

typedef struct pslite_node pslite_node;

/* Looks a setting up; returns NULL if it is not set. The text must live until the next call. */
typedef const char* (*pslite_lookup_fn)(void* arg, const char* name);

/* Whether a node reads a setting of that name (docs/env.md): for programs that give settings
 * themselves. PSLITE_INVALID_ARGUMENT: it does not, and the last error says which name may have
 * been meant. */
int pslite_setting_check(const char* name);

/* A node that reads its settings by `lookup` (NULL: getenv) at each first pslite_start. Nothing
 * else happens: no thread, no socket. */
int pslite_node_new(pslite_lookup_fn lookup, void* lookup_arg, pslite_node** out);
/* Stops the node if it runs, without a barrier, and frees it. */
void pslite_node_free(pslite_node* node);
/* The same without freeing it: what other threads wait for ends with PSLITE_STOPPED, also a start
 * that is under way. */
void pslite_node_stop(pslite_node* node);

/* The node of this process: the one that MXNet uses under the preload library, the first one of
 * ps::Postoffice in a C++ program, or what pslite_set_process_node said. It is lent: never free it,
 * and let its owner start and finalize it. PSLITE_NOT_STARTED: there is none (yet). */
int pslite_process_node(pslite_node** node);
/* Says which node that is. NULL, or pslite_node_free of it: there is none any more. */
int pslite_set_process_node(pslite_node* node);

/* Registers a customer with the scheduler and returns when the job is complete.
 * do_barrier: wait for all nodes in a barrier of group 7 afterwards. Blocks.
 * If it fails, and no other customer of the node is started, the node is stopped: it keeps no
 * thread and no descriptor, and may be started again. PSLITE_INVALID_ARGUMENT: this customer is
 * started already. */
int pslite_start(pslite_node* node, int32_t customer_id, int do_barrier);
/* do_barrier: wait for all nodes first. Customer 0 stops the node; others only leave the barrier.
 * Ends also if peers are gone; then the answer is PSLITE_PEER_LOST and the node is stopped all the
 * same. pslite_start may follow. */
int pslite_finalize(pslite_node* node, int32_t customer_id, int do_barrier);

enum {
  /* The customer will send no more requests; see docs, "a worker that leaves". */
  PSLITE_BARRIER_LEAVING = 1
};
/* Returns when every member of the group has entered; at once for groups of one. Blocks. */
int pslite_barrier(pslite_node* node, int32_t customer_id, int32_t group, uint32_t flags);

/* What a started node knows of itself and of the job. Before the settings were read: 0, EMPTY. */
typedef struct pslite_node_info {
  int32_t role; /* PSLITE_SERVER ... */
  int32_t id;   /* PSLITE_EMPTY before the job is complete */
  int32_t rank;
  int32_t num_workers;
  int32_t num_servers;
  int32_t port;
  int32_t verbose;
  uint8_t is_recovery;
  uint8_t is_ready;
  const char* hostname; /* belongs to the node; valid until it is freed or started again */
} pslite_node_info;
int pslite_node_describe(pslite_node* node, pslite_node_info* out);

/* The ids behind a group or id, workers first, then servers, then the scheduler. Writes at most
 * `capacity` ids, and the full count to *count. */
int pslite_node_ids(pslite_node* node, int32_t group, int32_t* ids, size_t capacity, size_t* count);
/* The nodes of which nothing was heard for that many seconds (0: none). */
int pslite_dead_nodes(pslite_node* node, int32_t timeout_s, int32_t* ids, size_t capacity,
                      size_t* count);
/* All that the node has counted (docs/metrics.md), as one JSON object. Writes at most `capacity`
 * bytes, without an ending zero, and the full size to *size; it may have grown until the next
 * call. */
int pslite_metrics(pslite_node* node, char* text, size_t capacity, size_t* size);
/* One key range for each server, in the order of their ranks: the keys that requests are cut by. */
int pslite_server_key_ranges(pslite_node* node, pslite_range* ranges, size_t capacity,
                             size_t* count);

/* Called once, on a thread of the library, when the job cannot go on: a node was lost for good.
 * From then on every call that needs the job returns PSLITE_PEER_LOST. */
typedef void (*pslite_failed_fn)(void* arg, const char* reason);
int pslite_on_failure(pslite_node* node, pslite_failed_fn failed, void* arg);

/* ---- nodes without an application, and jobs seen from outside ------------------------------- */

/* A node that was not started runs as `pslite scheduler` and `pslite server` do: without an
 * application, until the job is over. Blocks; pslite_node_stop, from another thread, ends it. */
int pslite_serve_scheduler(pslite_node* node);
int pslite_serve_server(pslite_node* node);

/* Where a job's scheduler is. own_host: the address of this machine to which a scheduler of an
 * earlier version sends its answer; NULL: the one from which packets to it leave. */
typedef struct pslite_job {
  const char* host;
  int32_t port;
  int32_t timeout_ms;
  const char* own_host;
} pslite_job;
/* What `pslite status --json` prints, as one JSON object. Writes at most `capacity` bytes, without
 * an ending zero, and the full size to *size. The process needs no node. */
int pslite_job_status(const pslite_job* job, char* text, size_t capacity, size_t* size);
/* The same with one name more, `chronicle`: what has happened in the job after the event with that
 * number, and how long rounds took later than so many milliseconds after the scheduler began
 * (docs/operations.md, "Events"). At first both are 0; of a long time it tells a part, and `more`
 * is true. A scheduler of an earlier version does not tell that name. */
int pslite_job_events(const pslite_job* job, uint64_t after_event, uint64_t after_point,
                      char* text, size_t capacity, size_t* size);
/* Asks to empty the server with that id and to release it (`pslite drain`). The scheduler's answer,
 * written as above; emptying goes on afterwards. PSLITE_REMOTE: it refuses, and says why. */
int pslite_job_drain(const pslite_job* job, int32_t server, char* text, size_t capacity,
                     size_t* size);

/* Prints through the library's log: level 0 error, 1 warning, 2 info. */
void pslite_log(int level, const char* text);

/* This process ends with that exit code, from 1 to 255, whatever exit() is given: for a failure
 * that is found when the program has chosen its code already, as in Python's atexit. What was
 * registered by atexit() before is not called. A child of fork() is not concerned. */
int pslite_exit_with(int code);

/* ---- messages ------------------------------------------------------------------------------ */

typedef struct pslite_message pslite_message;

/* Valid as long as the message. */
void pslite_message_meta(const pslite_message* message, pslite_meta* out);
size_t pslite_message_frames(const pslite_message* message);
/* Frames may be unaligned. Empty slice if i is out of range. */
pslite_slice pslite_message_frame(const pslite_message* message, size_t i);
/* What the sender says it is (pslite_frame); 11 if that is not known. */
int32_t pslite_message_data_type(const pslite_message* message, size_t i);
/* What the sender says of its values (pslite_devices). Without that: CPU 0, or, if there are no
 * frames, unknown, -1. */
void pslite_message_devices(const pslite_message* message, pslite_devices* out);
/* One more owner of the message; each owner calls release once. */
const pslite_message* pslite_message_retain(const pslite_message* message);
void pslite_message_release(const pslite_message* message);

/* What the values are that the calling thread sends next, by pslite_worker_push, pslite_worker_pull
 * (what it says of those to come), pslite_worker_push_pull, pslite_worker_send,
 * pslite_worker_send_parts, pslite_server_respond, or, of devices alone, pslite_send. It counts for
 * one call, also if that fails. Without it: 11, at CPU 0. devices: NULL for CPU 0. */
int pslite_next_values(int32_t data_type, const pslite_devices* devices);

/* Sends a message as it is, at most 15 frames: meta->recver is the id of a node, not of a group,
 * and its customer there (meta->app_id, and at workers meta->customer_id) gets it. sender is not
 * looked at. A request needs a timestamp of pslite_customer_new_request; its answers count. What
 * answers a KVServer's request counts as its answer. */
int pslite_send(pslite_node* node, const pslite_meta* meta, const pslite_frame* frames,
                size_t count);

/* ---- customers: who sends requests and gets messages --------------------------------------- */

typedef struct pslite_customer pslite_customer;

/* A message for this customer: on the customer's own thread, one after the other. The message
 * belongs to the library; retain it to keep it. */
typedef void (*pslite_receive_fn)(void* arg, const pslite_message* message);

/* May precede pslite_start, and may outlive pslite_finalize. Messages for a customer that does not
 * exist yet wait for it. Fails if (app_id, customer_id) is taken. */
int pslite_customer_new(pslite_node* node, int32_t app_id, int32_t customer_id,
                        pslite_receive_fn receive, void* arg, pslite_customer** out);
/* Ends the customer's thread (after the message in work) and frees it. Not from its own thread. */
void pslite_customer_free(pslite_customer* customer);

/* A new request of this customer to a node or group: *timestamp names it. */
int pslite_customer_new_request(pslite_customer* customer, int32_t recver, int32_t* timestamp);
/* Blocks until all responses arrived or the request failed: then the reason is the last error. */
int pslite_customer_wait(pslite_customer* customer, int32_t timestamp);
/* The same, for at most so many milliseconds: then PSLITE_TIMEOUT, and the request goes on. 0: says
 * at once whether it is over. */
int pslite_customer_wait_for(pslite_customer* customer, int32_t timestamp, int32_t limit_ms);
int pslite_customer_num_response(pslite_customer* customer, int32_t timestamp, int32_t* out);
int pslite_customer_add_response(pslite_customer* customer, int32_t timestamp, int32_t count);
/* Puts a message into the customer's own queue, as if meta->sender had sent it. At most 15
 * frames. */
int pslite_customer_accept(pslite_customer* customer, const pslite_meta* meta,
                           const pslite_frame* frames, size_t count);

/* ---- SimpleApp: commands between nodes ------------------------------------------------------ */

/* Sends head and body to every node behind `recver`; wait with pslite_customer_wait. */
int pslite_simple_request(pslite_customer* customer, int32_t head, const char* body,
                          size_t body_size, int32_t recver, int32_t* timestamp);
/* Answers a SimpleApp request, given its metadata. */
int pslite_simple_respond(pslite_customer* customer, const pslite_meta* request, const char* body,
                          size_t body_size);

/* ---- KVWorker -------------------------------------------------------------------------------- */

/* The end of a request: on the customer's thread or one that receives, after the call that sends
 * the request has returned and before pslite_customer_wait does; or, if every server was skipped,
 * on the calling thread. status PSLITE_OK, or why it failed (`error`).
 * Called exactly once, unless the call that was given it, or the one that sends the request
 * (pslite_worker_send, pslite_worker_send_parts), failed: then it was not called and never will be.
 * If another thread has ended the request meanwhile, because the job failed for example, the call
 * succeeds, and this function gets the error. */
typedef void (*pslite_done_fn)(void* arg, int status, const char* error);

/* Where pulled values go. Asked when all parts are here, on the customer's thread: the address of
 * `bytes` bytes to write to, or NULL if the caller's array does not fit (the request fails). */
typedef void* (*pslite_place_fn)(void* arg, size_t bytes);

typedef struct pslite_destination {
  pslite_place_fn place_vals;
  pslite_place_fn place_lens; /* NULL: lens are not wanted */
  void* arg;
  /* The caller's array for the values if it is there already, else NULL: then values may be
   * received there as they come, without a copy. Whether fewer bytes than it has are fine,
   * place_vals says. The library may write to it until the request has ended, also if it fails.
   * Nobody else may write to it meanwhile, nor read it, unless it holds the values of the same
   * request (ZPushPull). place_vals is called in any case, and must then give this address. */
  void* vals;
  size_t vals_bytes;
  /* How many values of each key are expected, as far as that is known: a hint. */
  const int32_t* lens;
  size_t lens_count;
} pslite_destination;

/* For languages whose code had better not run on threads of the library: functions of the library
 * to pass as place_vals and place_lens, and as release.
 *
 * The argument is a pslite_array: gives its data if exactly `bytes` bytes fit, and notes how many
 * came. */
typedef struct pslite_array {
  void* data;
  size_t bytes;
  size_t filled;
} pslite_array;
void* pslite_place_array(void* array, size_t bytes);
/* The argument is an int32_t, which is 0: makes it 1. What was lent is the caller's again then. */
void pslite_release_flag(void* flag);

/* Turns the customer into a KVWorker whose values are of `value_size` bytes. Responses then never
 * reach `receive`; other messages still do. */
int pslite_worker_attach(pslite_customer* customer, size_t value_size);

/* From now on the keys of this worker are its own, apart from those of other customers of the
 * process: key 3 of customer 1 is not key 3 of customer 0, and its commands (optimizer, mode,
 * compression) are about its keys alone. Customers with one number share them on all workers.
 * Customer 0 has the keys as they are, and so has every worker that does not call this. To be
 * called after `pslite_start` and before the first request. Keys are then less than 2^40 behind the
 * begin of each server's range. PSLITE_INVALID_ARGUMENT if a server cannot: only the library's own
 * store keeps them apart (`pslite_server_attach_store`, `pslite server`), of app 0; an
 * application's handler, a stock server and one of an older library do not. */
int pslite_worker_own_keys(pslite_customer* worker);

/* ZPush: cuts by server key range, sends, returns. Keys must be sorted inside each server's range
 * only as far as it takes to cut them there. */
int pslite_worker_push(pslite_customer* worker, const pslite_kv* kv, int32_t cmd, int32_t priority,
                       pslite_done_fn done, void* done_arg, int32_t* timestamp);
/* ZPull in one call. */
int pslite_worker_pull(pslite_customer* worker, pslite_buffer keys, const pslite_destination* into,
                       int32_t cmd, int32_t priority, pslite_done_fn done, void* done_arg,
                       int32_t* timestamp);
/* ZPushPull in one call. */
int pslite_worker_push_pull(pslite_customer* worker, const pslite_kv* kv,
                            const pslite_destination* into, int32_t cmd, int32_t priority,
                            pslite_done_fn done, void* done_arg, int32_t* timestamp);

/* The two halves of a pull, for callers that were compiled to make two calls
 * (KVWorker::AddPullCB, then KVWorker::Send). */
int pslite_worker_expect_pull(pslite_customer* worker, pslite_buffer keys,
                              const pslite_destination* into, pslite_done_fn done, void* done_arg,
                              int32_t* timestamp);
/* The first half of a request that brings nothing back. */
int pslite_worker_expect_push(pslite_customer* worker, pslite_done_fn done, void* done_arg,
                              int32_t* timestamp);
int pslite_worker_send(pslite_customer* worker, int32_t timestamp, int push, int pull, int32_t cmd,
                       int32_t priority, const pslite_kv* kv);
/* As pslite_worker_send, cut by the caller: servers that are not named are not asked. The keys of a
 * pull must be those that were expected, all of one server's next to each other. */
int pslite_worker_send_parts(pslite_customer* worker, int32_t timestamp, int push, int pull,
                             int32_t cmd, int32_t priority, const pslite_part* parts, size_t count);

/* ---- training while deltas travel ------------------------------------------------------------ */

/* In a job whose scheduler has PSLITE_SYNC, workers train on local values and exchange what they
 * have changed (docs/nbsync.md). Where no optimizer was set, the program may step its values. */

/* How the job of a started node exchanges, for people, written as by pslite_metrics. *size is 0 if
 * it does not. */
int pslite_exchange_describe(pslite_node* node, char* text, size_t capacity, size_t* size);

/* From now on what a KVWorker pushes of a key is the key's new value, which the program has
 * computed from the one that it was given last. To be called before its first request, by all
 * workers.
 *
 * The first push of a key by the worker of rank 0 makes it, as ever, and then each worker pulls it.
 * After that each pushes and pulls each key once in an iteration. What it pulls is its own value,
 * or, as the job's mode says, the global one with or without its own progress; a mode that waits
 * answers when that is here. What was not sent when the worker leaves (PSLITE_BARRIER_LEAVING,
 * pslite_finalize) is sent then. Requests are those of MXNet's kvstores: value_size is 1, lens
 * are in bytes, and cmd says of which type the values are: 0 float32, 2 float64, 5 float16.
 *
 * A step that began with another value than the worker has by then counts by its difference.
 *
 * PSLITE_CONFIG: the job exchanges nothing. PSLITE_INVALID_ARGUMENT: an optimizer was set. A push
 * fails with PSLITE_REMOTE if the key was never pulled, or if what was changed is not finite: then
 * nothing goes on. */
int pslite_exchange_begin(pslite_customer* worker);

typedef struct pslite_exchange_counts {
  uint64_t iterations; /* that have begun */
  uint64_t sent;       /* rounds that this worker has sent */
  uint64_t done;       /* those of them that were over when the last iteration began */
  double held;         /* seconds in which it was not let go on */
} pslite_exchange_counts;
/* What the exchange of a KVWorker's values has done; with an optimizer too. PSLITE_CONFIG: the job
 * exchanges nothing. */
int pslite_exchange_counted(pslite_customer* worker, pslite_exchange_counts* out);

/* While it is on, pulls that workers of this node make bring the global values, from the servers.
 * Pushes, and what the program trains with, are as ever. */
int pslite_exchange_pull_global(pslite_node* node, int on);

/* ---- KVServer -------------------------------------------------------------------------------- */

/* Turns the customer into a KVServer: its requests are watched until they are answered, so that a
 * request that can never be answered ends with an error (docs, "a worker that leaves"). */
int pslite_server_attach(pslite_customer* customer);

/* Gets bytes from the application: as often as it likes, in order. They are copied. */
typedef void (*pslite_write_fn)(void* write_arg, const void* data, size_t size);

/* What an application does so that its keys can move between servers while it runs
 * (docs/elastic.md, "Applications with their own handler"). All nodes of the job need
 * PSLITE_ELASTIC=1; in any other job nothing of this is called.
 *
 * - A key moves as a whole, so each request must be about one key. Keys are those of requests.
 * - export_key, import_key and forget_key are called on a thread of the library, one at a time,
 *   while `receive` of this customer does not run and every request for the key was answered. So
 *   after its answer a request must not touch the key any more.
 * - timestamp of a request is a number of the library, and stands for this request alone: give it
 *   back as it is. sender and customer_id are the worker's.
 * - A command goes to the servers that the job began with. One that joins later is not told of
 *   commands so far: what it needs to know must be in what export_key writes. */
typedef struct pslite_movable {
  size_t size; /* sizeof(pslite_movable) */
  void* user;  /* the first argument of all functions */
  /* Not 0: nothing is kept of a key between rounds, as in BytePS. A round: each worker pushes once,
   * and pulls once. Then the key is made at its next server by the pushes that made it here, each
   * given to `receive` again, as from its worker: all that a worker pushed before its first pull,
   * but the push of its first round. Their answers go nowhere. export_key and import_key are not
   * called and may be NULL; forget_key may be NULL too: then those pushes are not repeated where
   * the key has been before. */
  int stateless;
  /* Writes all that is kept of a key by calling `write`. Not 0: it cannot; then the key stays. */
  int (*export_key)(void* user, pslite_key key, pslite_write_fn write, void* write_arg);
  /* Takes what export_key wrote at the key's former server. Not 0: it cannot; then the key stays
   * there. */
  int (*import_key)(void* user, pslite_key key, const void* data, size_t size);
  /* The key is another server's for good. */
  void (*forget_key)(void* user, pslite_key key);
  /* This server was emptied, or the job is over: let another thread call pslite_finalize, which
   * waits for nobody then. May be NULL: a pslite_finalize that waits for the others returns in any
   * case. */
  void (*released)(void* user);
} pslite_movable;

/* As pslite_server_attach, and the customer's keys can move. `handlers` is copied; its functions
 * may be called until the customer is freed. (A program that cannot call this, and keeps nothing
 * between rounds, may be run with PSLITE_SERVER_STATELESS=1.) */
int pslite_server_attach_movable(pslite_customer* customer, const pslite_movable* handlers);
/* Puts the library's own store in front of a KVServer that serves MXNet's protocol: it answers
 * pushes and pulls, and knows what MXNet's commands mean. `receive` goes on getting the commands.
 * If an optimizer comes that the store does not know, `receive` first gets a push of every value
 * that the store holds, and from then on everything. */
int pslite_server_attach_store(pslite_customer* customer);
/* Answers a request that `receive` was given. kv: NULL for none. Once per request, from any
 * thread, also after `receive` returned. With request->error the request fails at
 * its sender with that text; fails here if the sender is a stock node, which knows no errors. */
int pslite_server_respond(pslite_customer* server, const pslite_meta* request, const pslite_kv* kv);

/* ---- batch sizes ----------------------------------------------------------------------------- */

/* Workers that share the batches of a training (docs/lbbsp.md). In each iteration all of them
 * together compute `total` samples; the scheduler says how many each of them takes, so that all
 * take the same time. */
typedef struct pslite_session pslite_session;

/* Which rule sets the sizes. */
enum {
  PSLITE_RULE_FIXED = 0,    /* all are equal */
  PSLITE_RULE_CPU = 1,      /* in proportion to speeds, which a regression predicts */
  PSLITE_RULE_CPU_LAST = 2, /* in proportion to the last speeds */
  PSLITE_RULE_CPU_MEAN = 3, /* in proportion to averages of the last speeds */
  PSLITE_RULE_GPU = 4,      /* by steps from the slowest worker to the fastest */
  PSLITE_RULE_DEALT = 5     /* no iterations: whoever asks gets the next `total` samples */
};

/* All workers give the same values, but for rank, min and max. */
typedef struct pslite_session_settings {
  const char* name;   /* of the session, 1 to 128 bytes */
  uint64_t length;    /* how many samples an epoch has */
  uint32_t total;     /* how many samples an iteration has; PSLITE_RULE_DEALT: a batch */
  uint32_t members;   /* how many workers take part; batches begin when all are here */
  uint32_t rank;      /* of this worker, from 0 on */
  uint32_t min;       /* the fewest samples that this worker takes, 1 or more */
  uint32_t max;       /* the most samples that it takes; 0: there is no limit */
  uint32_t quantum;   /* sizes are multiples of it; one worker takes what is left over besides */
  uint32_t lookahead; /* how many iterations a worker may have begun that the slowest worker has not
                       * reported; 1 or more */
  int32_t rule;       /* PSLITE_RULE_... */
  uint64_t seed;      /* the order of samples follows from it */
  uint64_t epochs;    /* PSLITE_RULE_DEALT: how many there are; 0: they never end */
  uint8_t wraps;      /* samples at the end of an epoch may not fill an iteration. 1: the epoch's
                       * first samples fill it up; 0: they are left out */
  uint8_t measured;   /* 1: the library measures how long a batch takes, and reports it: from the
                       * answer of the last pull until the last gradient is pushed. It does not
                       * measure the first batch of an epoch */
} pslite_session_settings;

/* In which order a worker takes the samples of an epoch. */
enum {
  PSLITE_ORDER_UNSAID = 0,   /* it is not compared with that of the other workers */
  PSLITE_ORDER_SHUFFLED = 1, /* as pslite_session_samples says */
  PSLITE_ORDER_STORED = 2,   /* by their numbers */
  PSLITE_ORDER_OWN = 3       /* the application gives it: its hash is compared */
};

/* Where a session begins. All workers give the same values. */
typedef struct pslite_session_start {
  uint64_t first;      /* the first iteration; PSLITE_RULE_DEALT: the first epoch */
  uint64_t order_hash; /* PSLITE_ORDER_OWN: of the order of the first epoch */
  int32_t order;       /* PSLITE_ORDER_... */
} pslite_session_start;

typedef struct pslite_batch {
  uint64_t iteration; /* counted over all epochs; PSLITE_RULE_DEALT: how many batches this worker
                       * had before */
  uint64_t epoch;
  uint64_t place;     /* of the first sample in the epoch's order */
  uint32_t size;      /* how many samples; 0: there are no more batches */
  uint32_t workers;   /* how many workers share the iteration; PSLITE_RULE_DEALT: 1 */
} pslite_batch;

/* Lets a worker take part; its node must be started. Returns when it has a place. If it has closed
 * a session of that name before, it waits until the others have closed that too. */
int pslite_session_open(pslite_node* node, const pslite_session_settings* settings,
                        pslite_session** out);
/* The same, but the session begins at `start`: so a job goes on where another one ended. */
int pslite_session_open_at(pslite_node* node, const pslite_session_settings* settings,
                           const pslite_session_start* start, pslite_session** out);
/* Ends the pslite_session_open of that name for which another thread waits: it returns
 * PSLITE_STOPPED. Does nothing if none waits. */
int pslite_session_cancel(pslite_node* node, const char* name);
/* Leaves the session and frees it. The others go on without this worker. No other call with it may
 * run meanwhile. NULL does nothing. */
void pslite_session_close(pslite_session* session);
/* Takes the next batch. Waits at most so many milliseconds for it; with -1 as long as it takes.
 * PSLITE_TIMEOUT: it has not come. The text says for whom this worker waits. */
int pslite_session_next(pslite_session* session, int32_t limit_ms, pslite_batch* out);
/* This worker has computed that batch and all before it. The numbers are about that one; 0: not
 * known. seconds: how long it computed, without waiting for others. cpu, memory: the share of
 * processors and memory that this worker can have, from 0 to 1. From the first call on, the library
 * does not measure this session any more. */
int pslite_session_report(pslite_session* session, uint64_t iteration, double seconds, double cpu,
                          double memory);
/* This worker computes none of the batches before that iteration that it has not reported. All
 * workers have to skip alike; else who computes what another one skips is refused. */
int pslite_session_skip(pslite_session* session, uint64_t iteration);
/* Where the library measures: this worker pushes nothing more of the batch that it computed last.
 * That one is reported now, in place of with the next push. To be called before batches that were
 * taken and not computed are looked for. */
int pslite_session_settle(pslite_session* session);
/* PSLITE_ORDER_OWN: the hash of another epoch's order. The scheduler refuses a worker whose order
 * of an epoch is not that of the others. */
int pslite_session_ordered(pslite_session* session, uint64_t epoch, uint64_t hash);
/* How many batches this worker has taken, and how many of them were reported. */
int pslite_session_progress(pslite_session* session, uint64_t* taken, uint64_t* reported);
/* The samples at `count` places of an epoch, from `place` on. All workers order them in the same
 * way. The epoch has `length` samples; after its last place comes its first one again. Needs no
 * session. */
int pslite_session_samples(uint64_t length, uint64_t seed, uint64_t epoch, uint64_t place,
                           size_t count, uint64_t* samples);

/* ---- exchanges ------------------------------------------------------------------------------- */

/* In a job whose workers train while deltas travel (PSLITE_SYNC, docs/nbsync.md): waits until all
 * workers have called it, all that they have changed is at the servers, and what they pull next is
 * equal to the bit. Each calls it when its requests are done, and pushes nothing until it returns.
 * A worker that has left is not awaited, nor is one that took the place of a dead one; that one
 * waits for what it has changed itself. *exchanges: 1; in any other job 0, and it returns at once.
 * Before the job has its first policy (pslite_start) it is 0, too. */
int pslite_exchange_finish(pslite_node* node, int32_t* exchanges);

/* ---- BytePS ---------------------------------------------------------------------------------- */

/* What a program that was written for the ps-lite of BytePS says of a node before pslite_start;
 * what is said later counts at the next start. */

/* What a node speaks with its peers: all of a job the same. PSLITE_WIRE in the environment goes
 * before this. */
enum {
  PSLITE_WIRE_DEFAULT = 0,      /* mxnet */
  PSLITE_WIRE_MXNET = 1,        /* dmlc's ps-lite, and all that nodes of ours do beyond it */
  PSLITE_WIRE_BYTEPS_0_2_5 = 2, /* the ps-lite in BytePS 0.2.5.post15 of PyPI */
  PSLITE_WIRE_BYTEPS = 3        /* that of BytePS's later releases */
};
int pslite_node_set_wire(pslite_node* node, int32_t wire);
/* The role, in place of DMLC_ROLE (StartPS). -1: as DMLC_ROLE says. */
int pslite_node_set_role(pslite_node* node, int32_t role);
/* The rank that the node wants. -1: the scheduler chooses. If a node of a job wants one, all must,
 * and the ranks of each role must be 0, 1, 2 and so on; else the job does not start. On any
 * wire. */
int pslite_node_set_rank(pslite_node* node, int32_t rank);
/* A process may have several nodes of its role: `size` pslite_node, as each other process of the
 * job has. DMLC_NUM_WORKER and DMLC_NUM_SERVER count processes then, and so do key ranges and
 * pslite_node_describe's counts; ids, ranks, pslite_node_ids and dead nodes count nodes. Node i of
 * process p must get rank p * size + i (pslite_node_set_rank). A worker asks the server of the same
 * i in each process; of the nodes of a process one may call pslite_barrier, while pslite_start and
 * pslite_finalize wait for all nodes. The scheduler needs the size too. */
int pslite_node_set_group_size(pslite_node* node, int32_t size);
int pslite_node_group_size(pslite_node* node, int32_t* size);
/* 1: a server of this node holds a worker's push of a key back until all workers that pushed it in
 * the round before have pulled, and their answers have been sent (docs/divergences.md). 0: it does
 * not. -1: as the wire says; those of BytePS do, unless BYTEPS_ENABLE_ASYNC=1. PSLITE_HOLD_PUSHES
 * in the environment goes before this. */
int pslite_node_set_hold_pushes(pslite_node* node, int32_t holds);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* PSLITE_H_ */
