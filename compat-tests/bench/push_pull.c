/* push_pull: how long the push_pulls of one worker take over the C ABI, beside pslite.kv
 * (python_kv.py). The server gives back what was pushed, so nothing but the library is measured.
 *
 *   push_pull BYTES COUNT
 *
 * One process of a job; DMLC_ROLE says which. The worker prints the seconds of each of COUNT
 * requests, after ten that do not count, as a list of JSON. */
#include <pslite.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BEFORE = 10 };

static void check(int status, const char* what) {
  if (status == PSLITE_OK) return;
  fprintf(stderr, "%s: %s\n", what, pslite_last_error());
  exit(1);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void release_message(void* message) { pslite_message_release(message); }

/* A frame of a message, which stays until it was sent. */
static pslite_buffer again(const pslite_message* message, size_t index) {
  pslite_slice slice = pslite_message_frame(message, index);
  pslite_buffer buffer = {slice.data, slice.size, release_message,
                          (void*)pslite_message_retain(message)};
  return buffer;
}

static void echo(void* arg, const pslite_message* message) {
  pslite_customer** customer = arg;
  pslite_meta request;
  pslite_message_meta(message, &request);
  if (!request.request || request.simple_app) return;
  pslite_kv kv = {again(message, 0), again(message, 1), {NULL, 0, NULL, NULL}};
  check(pslite_server_respond(*customer, &request, &kv), "pslite_server_respond");
}

static void ignore(void* arg, const pslite_message* message) {
  (void)arg;
  (void)message;
}

static void work(pslite_customer* worker, size_t bytes, int count) {
  pslite_key key = 7;
  char* values = calloc(bytes, 1);
  pslite_array array = {values, bytes, 0};
  pslite_kv kv = {{&key, sizeof key, NULL, NULL}, {values, bytes, NULL, NULL},
                  {NULL, 0, NULL, NULL}};
  pslite_destination into = {pslite_place_array, NULL, &array, values, bytes, NULL, 0};
  for (int i = 0; i < BEFORE + count; ++i) {
    int32_t timestamp;
    double begin = now();
    check(pslite_worker_push_pull(worker, &kv, &into, 0, 0, NULL, NULL, &timestamp), "push_pull");
    check(pslite_customer_wait(worker, timestamp), "pslite_customer_wait");
    if (i >= BEFORE) printf("%s%.9f", i > BEFORE ? ", " : "[", now() - begin);
  }
  printf("]\n");
  free(values);
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: push_pull BYTES COUNT\n");
    return 2;
  }
  pslite_node* node;
  pslite_customer* customer = NULL;
  pslite_node_info info;
  check(pslite_node_new(NULL, NULL, &node), "pslite_node_new");
  check(pslite_start(node, 0, 1), "pslite_start");
  check(pslite_node_describe(node, &info), "pslite_node_describe");
  if (info.role != PSLITE_SCHEDULER) {
    check(pslite_customer_new(node, 0, 0, info.role == PSLITE_SERVER ? echo : ignore, &customer,
                              &customer), "pslite_customer_new");
  }
  if (info.role == PSLITE_SERVER) check(pslite_server_attach(customer), "pslite_server_attach");
  if (info.role == PSLITE_WORKER) check(pslite_worker_attach(customer, 4), "pslite_worker_attach");
  check(pslite_barrier(node, 0, PSLITE_GROUP_ALL, 0), "pslite_barrier");
  if (info.role == PSLITE_WORKER) work(customer, strtoull(argv[1], NULL, 10), atoi(argv[2]));
  check(pslite_finalize(node, 0, 1), "pslite_finalize");
  if (customer) pslite_customer_free(customer);
  pslite_node_free(node);
  return 0;
}
