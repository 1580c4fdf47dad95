// ps/internal/van.h: the van of a node, as far as applications reach for it: who this node is, and
// messages that they send by themselves. Everything else is inside the library.
#ifndef PS_INTERNAL_VAN_H_
#define PS_INTERNAL_VAN_H_

#include <atomic>
#include <functional>
#include <mutex>
#include <string>

#include "ps/internal/abi.h"
#include "ps/internal/message.h"

namespace ps {

class Postoffice;

// What goes wrong (BytePS).
enum ErrorCode {
  PS_OK,
  PS_ERR_TIMED_OUT,
  PS_ERR_NOT_CONNECTED,
  PS_ERR_CONNECTION_RESET,
  PS_ERR_OTHER
};

class Van {
 public:
  typedef std::function<void(void*, ErrorCode, std::string)> ErrorHandle;

  // The van of a postoffice. `type` is checked as DMLC_PS_VAN_TYPE is; null: that of
  // Postoffice::Get(). The caller's.
  static Van* Create(const std::string& type, Postoffice* postoffice = nullptr);

  Van();
  explicit Van(Postoffice* postoffice) : postoffice_(postoffice) {}
  virtual ~Van() {}

  // Makes the node a member of the job, or registers one more customer. No barrier.
  virtual void Start(int customer_id);
  void Start(int customer_id, bool) { Start(customer_id); }

  // Sends a message of an application: meta.recver says to which node, its customer there gets it.
  // Thread-safe. The bytes of data. Throws dmlc::Error, also for control messages, which only the
  // library itself sends.
  int Send(const Message& message);

  // This node. Throws dmlc::Error unless the node is started.
  const Node& my_node() const;

  // Ends the node without waiting for anybody.
  virtual void Stop();

  // A number for the next message that wants one.
  int GetTimestamp() { return timestamp_++; }

  // The job is complete.
  bool IsReady();

  std::string GetType() const { return "zmq"; }

  // Is called, on a thread of the library, when a request or the whole job failed (BytePS). The
  // first argument is the van. One for the process.
  static void set_err_handle(const ErrorHandle& handle) {
    std::lock_guard<std::mutex> lock(errors().mutex);
    errors().handle = handle;
  }

  // Memory needs no preparation here (BytePS). Throws dmlc::Error for memory of a GPU, which cannot
  // be sent.
  void PinMemory(void*, size_t, bool gpu, int = 0) {
    CHECK(!gpu) << "pslite sends memory of the host only";
  }

  // Tells the handle, if there is one. For the headers beside this one.
  void tell_failure(int status, const char* reason) {
    ErrorHandle handle;
    {
      std::lock_guard<std::mutex> lock(errors().mutex);
      handle = errors().handle;
    }
    if (handle) handle(this, code_of(status), reason ? reason : "");
  }

 private:
  friend class Postoffice;

  struct Errors {
    std::mutex mutex;
    ErrorHandle handle;
  };
  static Errors& errors() {
    static Errors& one = *new Errors();
    return one;
  }

  static ErrorCode code_of(int status) {
    switch (status) {
      case PSLITE_OK:
        return PS_OK;
      case PSLITE_TIMEOUT:
        return PS_ERR_TIMED_OUT;
      case PSLITE_NOT_STARTED:
      case PSLITE_STOPPED:
        return PS_ERR_NOT_CONNECTED;
      case PSLITE_PEER_LOST:
        return PS_ERR_CONNECTION_RESET;
      default:
        return PS_ERR_OTHER;
    }
  }

  Postoffice* postoffice_;
  std::atomic<int> timestamp_{0};
};

}  // namespace ps

#include "ps/internal/postoffice.h"

#endif  // PS_INTERNAL_VAN_H_
