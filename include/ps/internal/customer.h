// ps/internal/customer.h: who sends requests, and gets messages on a thread of its own.
#ifndef PS_INTERNAL_CUSTOMER_H_
#define PS_INTERNAL_CUSTOMER_H_

#include <condition_variable>
#include <functional>
#include <mutex>

#include "ps/internal/abi.h"
#include "ps/internal/message.h"

namespace ps {

class Postoffice;

class Customer {
 public:
  // Called for each message to this customer, one at a time. What it throws ends the process.
  typedef std::function<void(const Message&)> RecvHandle;

  // Messages that came before are delivered now. postoffice: null for Postoffice::Get(). Throws
  // dmlc::Error if there is such a customer already.
  Customer(int app_id, int customer_id, const RecvHandle& recv_handle,
           Postoffice* postoffice = nullptr)
      : Customer(app_id, customer_id, recv_handle, postoffice, Closed()) {
    open();
  }

  // Waits for the message in work. Not from the customer's own thread.
  ~Customer();

  Customer(const Customer&) = delete;
  Customer& operator=(const Customer&) = delete;

  int app_id() { return app_id_; }
  int customer_id() { return customer_id_; }

  // A new request to a node or group; its number.
  int NewRequest(int recver) {
    int timestamp = -1;
    abi::check(pslite_customer_new_request(handle_, recver, &timestamp),
               "ps::Customer::NewRequest");
    return timestamp;
  }

  // Blocks until all have answered. Throws dmlc::Error if that cannot happen any more.
  void WaitRequest(int timestamp) {
    abi::check(pslite_customer_wait(handle_, timestamp), "ps::Customer::WaitRequest");
  }

  int NumResponse(int timestamp) {
    int count = 0;
    abi::check(pslite_customer_num_response(handle_, timestamp, &count),
               "ps::Customer::NumResponse");
    return count;
  }

  // Counts answers that will not come.
  void AddResponse(int timestamp, int num = 1) {
    abi::check(pslite_customer_add_response(handle_, timestamp, num), "ps::Customer::AddResponse");
  }

  // Puts a message into the queue, as if it had come from its meta.sender.
  void Accept(const Message& received);

  // For the headers beside this one: the library's customer; a customer that gets nothing before it
  // is opened.
  struct Closed {};
  Customer(int app_id, int customer_id, const RecvHandle& recv_handle, Postoffice* postoffice,
           Closed);
  void open() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      is_open_ = true;
    }
    opened_.notify_all();
  }
  pslite_customer* handle() { return handle_; }
  Postoffice* postoffice() { return postoffice_; }

 private:
  // Nothing may be thrown through the library: what the handle throws ends the process, as
  // upstream.
  static void receive(void* self, const pslite_message* message) noexcept {
    static_cast<Customer*>(self)->receive(message);
  }
  void receive(const pslite_message* message) {
    if (!was_open_) {
      std::unique_lock<std::mutex> lock(mutex_);
      opened_.wait(lock, [this] { return is_open_; });
      was_open_ = true;
    }
    Message received;
    abi::from_abi(message, &received);
    recv_handle_(received);
  }

  const int app_id_;
  const int customer_id_;
  const RecvHandle recv_handle_;
  Postoffice* const postoffice_;
  pslite_customer* handle_ = nullptr;
  std::mutex mutex_;
  std::condition_variable opened_;
  bool is_open_ = false;
  // Of the thread that receives: messages come one after the other.
  bool was_open_ = false;
};

}  // namespace ps

#include "ps/internal/postoffice.h"

#endif  // PS_INTERNAL_CUSTOMER_H_
