// A node in one shared library, or the program that loads three of them. C++11.
//
//   -DNODE=name     the library: name() runs a whole node, whose role the argument says
//   (else)          several LIBRARY FUNCTION ROLE ...   a process of several nodes, each in a
//                   library of its own
//
// Every library holds an archive of its own. The program has functions of libzmq's names: they must
// not be called.

#include <pslite.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#ifdef NODE

#include <vector>

namespace {

struct Settings {
  const char* role;
  std::string text;
};

const char* look_up(void* arg, const char* name) {
  const Settings* settings = static_cast<Settings*>(arg);
  return std::strcmp(name, "DMLC_ROLE") == 0 ? settings->role : std::getenv(name);
}

void check(int status, const char* what) {
  if (status == PSLITE_OK) return;
  std::fprintf(stderr, "%s: %s\n", what, pslite_last_error());
  std::_Exit(1);
}

struct Server {
  pslite_customer* customer;
  std::vector<char> value;
};

void receive(void* arg, const pslite_message* message) {
  Server* server = static_cast<Server*>(arg);
  pslite_meta meta;
  pslite_message_meta(message, &meta);
  const pslite_slice keys = pslite_message_frame(message, 0);
  pslite_kv kv = {{keys.data, keys.size, nullptr, nullptr},
                  {nullptr, 0, nullptr, nullptr},
                  {nullptr, 0, nullptr, nullptr}};
  if (meta.push) {
    const pslite_slice vals = pslite_message_frame(message, 1);
    const char* data = static_cast<const char*>(vals.data);
    server->value.assign(data, data + vals.size);
    check(pslite_server_respond(server->customer, &meta, nullptr), "respond");
  } else {
    kv.vals.data = server->value.data();
    kv.vals.size = server->value.size();
    check(pslite_server_respond(server->customer, &meta, &kv), "respond");
  }
}

void* place(void* arg, size_t bytes) {
  std::vector<char>* into = static_cast<std::vector<char>*>(arg);
  into->resize(bytes);
  return into->data();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void NODE(const char* role) {
  Settings settings = {role, ""};
  pslite_node* node = nullptr;
  check(pslite_node_new(look_up, &settings, &node), "node");
  const std::string name = role;
  Server server = {nullptr, {}};
  pslite_customer* customer = nullptr;
  if (name != "scheduler") {
    check(pslite_customer_new(
              node, 0, 0, name == "server" ? receive : [](void*, const pslite_message*) {}, &server,
              &customer),
          "customer");
    server.customer = customer;
    check(name == "server" ? pslite_server_attach(customer) : pslite_worker_attach(customer, 1),
          "attach");
  }
  check(pslite_start(node, 0, 1), "start");
  if (name == "worker") {
    const uint64_t key = 3;
    // More than is copied at once.
    const std::vector<char> sent(1 << 20, 'x');
    std::vector<char> got;
    const pslite_buffer keys = {&key, sizeof(key), nullptr, nullptr};
    const pslite_kv kv = {
        keys, {sent.data(), sent.size(), nullptr, nullptr}, {nullptr, 0, nullptr, nullptr}};
    int32_t timestamp = 0;
    check(pslite_worker_push(customer, &kv, 0, 0, nullptr, nullptr, &timestamp), "push");
    check(pslite_customer_wait(customer, timestamp), "push");
    pslite_destination into;
    std::memset(&into, 0, sizeof into);
    into.place_vals = place;
    into.arg = &got;
    check(pslite_worker_pull(customer, keys, &into, 0, 0, nullptr, nullptr, &timestamp), "pull");
    check(pslite_customer_wait(customer, timestamp), "pull");
    if (got != sent) std::_Exit(2);
  }
  check(pslite_finalize(node, 0, 1), "finalize");
  pslite_customer_free(customer);
  pslite_node_free(node);
}

#else

#include <dlfcn.h>

#include <thread>
#include <vector>

extern "C" {
__attribute__((visibility("default"))) void* zmq_ctx_new() { std::abort(); }
__attribute__((visibility("default"))) void* zmq_socket(void*, int) { std::abort(); }
__attribute__((visibility("default"))) int zmq_poll(void*, int, long) { std::abort(); }
}

int main(int count, char** arguments) {
  std::vector<std::thread> nodes;
  for (int i = 1; i + 2 < count; i += 3) {
    void* library = dlopen(arguments[i], RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
      std::fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
    void (*node)(const char*) = nullptr;
    *reinterpret_cast<void**>(&node) = dlsym(library, arguments[i + 1]);
    if (!node) return 1;
    nodes.emplace_back(node, arguments[i + 2]);
  }
  for (std::thread& node : nodes) node.join();
  // The program's own copy.
  std::printf("%zu nodes in one process, ABI %u\n", nodes.size(), pslite_abi_version());
  return nodes.empty() ? 1 : 0;
}

#endif
