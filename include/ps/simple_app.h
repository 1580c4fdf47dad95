// ps/simple_app.h: commands between nodes: a number and a text, each answered with a text.
#ifndef PS_SIMPLE_APP_H_
#define PS_SIMPLE_APP_H_

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>

#include "ps/internal/abi.h"
#include "ps/internal/customer.h"
#include "ps/internal/message.h"
#include "ps/internal/postoffice.h"

namespace ps {

namespace abi {

// A handle of an application, which may be set after the first message for it came.
template <typename Handle>
class LateHandle {
 public:
  // Before messages come.
  void set(const Handle& handle) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      handle_ = handle;
      is_set_ = true;
    }
    changed_.notify_all();
  }

  // The handle, once it is set; null if that does not happen within the time, or before the end.
  const Handle* wait(std::chrono::steady_clock::time_point until) {
    return wait([&](std::unique_lock<std::mutex>& lock) {
      return changed_.wait_until(lock, until) == std::cv_status::no_timeout;
    });
  }
  const Handle* wait() {
    return wait([&](std::unique_lock<std::mutex>& lock) {
      changed_.wait(lock);
      return true;
    });
  }

  // Nobody waits any more.
  void end() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
  }

 private:
  template <typename Wait>
  const Handle* wait(const Wait& some_time) {
    if (is_known_) return &handle_;
    std::unique_lock<std::mutex> lock(mutex_);
    while (!is_set_ && !is_over_ && some_time(lock)) {
    }
    if (!is_set_) return nullptr;
    is_known_ = true;
    return &handle_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Handle handle_;
  bool is_set_ = false;
  bool is_over_ = false;
  // Of the thread that receives.
  bool is_known_ = false;
};

// The answer to a request: a SimpleData, or a KVMeta. error: why it failed, or null.
template <typename Request>
pslite_meta answer_to(const Request& request, int head, int app_id, const char* error) {
  pslite_meta meta;
  std::memset(&meta, 0, sizeof meta);
  meta.head = to_abi(head);
  meta.app_id = app_id;
  meta.customer_id = to_abi(request.customer_id);
  meta.timestamp = request.timestamp;
  meta.sender = request.sender;
  meta.error = error;
  return meta;
}

}  // namespace abi

// A command, or the answer to one.
struct SimpleData {
  int head;
  std::string body;
  int sender;
  int timestamp;
  int customer_id;
};

class SimpleApp {
 public:
  // Both handles are called on the customer's thread, one message at a time. If one for requests
  // throws, the command fails at its sender with that text.
  typedef std::function<void(const SimpleData& received, SimpleApp* app)> Handle;

  explicit SimpleApp(int app_id, int customer_id, Postoffice* postoffice = nullptr) {
    make_customer(app_id, customer_id, postoffice);
    obj_->open();
  }
  virtual ~SimpleApp() { end_customer(); }

  SimpleApp(const SimpleApp&) = delete;
  SimpleApp& operator=(const SimpleApp&) = delete;

  // Sends a command to a node or group; the number of the request. Throws dmlc::Error.
  virtual inline int Request(int req_head, const std::string& req_body, int recv_id) {
    int timestamp = -1;
    abi::check(pslite_simple_request(obj_->handle(), req_head, req_body.data(), req_body.size(),
                                     recv_id, &timestamp),
               "ps::SimpleApp::Request");
    return timestamp;
  }

  // Blocks until all have answered. Throws dmlc::Error if one could not obey or cannot answer any
  // more.
  virtual inline void Wait(int timestamp) { obj_->WaitRequest(timestamp); }

  // Answers a command: once, from any thread, also later. If the sender is gone, that is logged.
  virtual inline void Response(const SimpleData& received, const std::string& res_body = "") {
    respond(received, res_body, nullptr);
  }

  // Without one every command is answered with an empty text.
  virtual inline void set_request_handle(const Handle& handle) { request_handle_.set(handle); }
  // Without one answers are only counted.
  virtual inline void set_response_handle(const Handle& handle) { response_handle_.set(handle); }

  virtual inline Customer* get_customer() { return obj_; }

 protected:
  // For apps that make their customer by themselves.
  SimpleApp() {}

  // Gets each message, on the customer's thread.
  virtual inline void Process(const Message& message) {
    SimpleData data = SimpleData();
    data.head = message.meta.head;
    data.body = message.meta.body;
    data.sender = message.meta.sender;
    data.timestamp = message.meta.timestamp;
    data.customer_id = message.meta.customer_id;
    if (message.meta.request) {
      request(data);
    } else {
      response(data);
    }
  }

  // For the apps of these headers.
  void make_customer(int app_id, int customer_id, Postoffice* postoffice) {
    made_ = std::chrono::steady_clock::now();
    obj_ = new Customer(
        app_id, customer_id, [this](const Message& message) { Process(message); }, postoffice,
        Customer::Closed());
  }
  void end_customer() {
    request_handle_.end();
    response_handle_.end();
    delete obj_;
    obj_ = nullptr;
  }

  Customer* obj_ = nullptr;

 private:
  // A command that comes right after the app was made waits so long for the handle that is set
  // next.
  std::chrono::steady_clock::time_point handle_expected() const {
    return made_ + std::chrono::milliseconds(100);
  }

  void request(const SimpleData& data) {
    const Handle* handle = request_handle_.wait(handle_expected());
    if (!handle) return Response(data);
    try {
      (*handle)(data, this);
    } catch (...) {
      const std::string text =
          "the command could not be obeyed: " + abi::text_of(std::current_exception());
      pslite_log(0, text.c_str());
      respond(data, std::string(), text.c_str());
    }
  }

  void response(const SimpleData& data) {
    const Handle* handle = response_handle_.wait(std::chrono::steady_clock::time_point());
    if (!handle) return;
    try {
      (*handle)(data, this);
    } catch (...) {
      const std::string text =
          "a response handle has thrown: " + abi::text_of(std::current_exception());
      pslite_log(0, text.c_str());
    }
  }

  void respond(const SimpleData& request, const std::string& body, const char* error) {
    const pslite_meta meta = abi::answer_to(request, request.head, obj_->app_id(), error);
    if (pslite_simple_respond(obj_->handle(), &meta, body.data(), body.size()) != PSLITE_OK) {
      pslite_log(1, pslite_last_error());
    }
  }

  abi::LateHandle<Handle> request_handle_;
  abi::LateHandle<Handle> response_handle_;
  std::chrono::steady_clock::time_point made_;
};

}  // namespace ps

#endif  // PS_SIMPLE_APP_H_
