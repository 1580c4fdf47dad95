// What applications do past KVWorker and KVServer: several customers in one process, each with a
// thread of its own; a Customer with a handle of its own; messages that they send by the van, and
// put into queues. Run with one worker process for DMLC_NUM_WORKER=2.
#include <ps/ps.h>

#include <atomic>
#include <thread>

#include "relink.h"

namespace {

const int kApp = 5;
const int kPairs = 1000;
const int kTimes = 50;

// ---- two customers in one process

void customer(int id) {
  ps::Start(id);
  {
    ps::KVWorker<float> kv(0, id);
    std::vector<ps::Key> keys;
    std::vector<float> vals;
    for (int i = 0; i < kPairs; ++i) {
      keys.push_back(ps::kMaxKey / kPairs * static_cast<uint64_t>(i) + static_cast<uint64_t>(id));
      vals.push_back(static_cast<float>(i % 100 + id));
    }
    std::vector<int> timestamps;
    for (int i = 0; i < kTimes; ++i) timestamps.push_back(kv.Push(keys, vals));
    for (const int timestamp : timestamps) kv.Wait(timestamp);
    std::vector<float> got;
    kv.Wait(kv.Pull(keys, &got));
    for (int i = 0; i < kPairs; ++i) {
      const size_t at = static_cast<size_t>(i);
      require_equal(got.at(at), vals[at] * kTimes, "the sum of customer " + std::to_string(id));
    }
    require_equal(kv.get_customer()->customer_id(), id, "customer_id");
    require(kv.obj_ == kv.get_customer() && kv.obj_->app_id() == 0, "the customer of a KVWorker");
    require(ps::Postoffice::Get()->GetCustomer(0, id) == kv.get_customer(), "GetCustomer");
    require(thrown_by([id] { ps::KVWorker<float>(0, id); }, "the same customer again")
                    .find("exists already") != std::string::npos,
            "the same customer again");
    ps::Postoffice::Get()->Barrier(id, ps::kWorkerGroup);
  }
  require(ps::Postoffice::Get()->GetCustomer(0, id) == nullptr, "a customer that is gone");
  if (id != 0) ps::Finalize(id, true);
}

// ---- messages of the application's own: a request of one array, answered with what it has, twice

void answer(const ps::Message& request) {
  require(request.meta.request && request.meta.app_id == kApp, "a request for this app");
  require_equal(request.data.size(), static_cast<size_t>(4), "arrays of any number");
  require_equal(request.meta.data_type.at(1), ps::DOUBLE, "their types");
  require_equal(request.meta.data_size, 8 + 3 * 8 + 100000 + 0, "their bytes");
  ps::Message response;
  response.meta.head = request.meta.head;
  response.meta.app_id = request.meta.app_id;
  response.meta.customer_id = request.meta.customer_id;
  response.meta.timestamp = request.meta.timestamp;
  response.meta.recver = request.meta.sender;
  response.meta.body = "not for these";
  response.AddData(ps::SArray<double>(request.data[1]));
  require_equal(ps::Postoffice::Get()->van()->Send(response), 3 * 8, "the bytes that were sent");
}

ps::Message question(ps::Customer* customer, int recver, double number) {
  ps::Message message;
  message.meta.head = 77;
  message.meta.app_id = kApp;
  message.meta.customer_id = customer->customer_id();
  message.meta.request = true;
  message.meta.recver = recver;
  message.AddData(ps::SArray<ps::Key>({1}));
  message.AddData(ps::SArray<double>({number, number, number}));
  message.AddData(ps::SArray<char>(100000, 'x'));
  message.AddData(ps::SArray<int>());
  return message;
}

void ask() {
  std::atomic<int> answers(0);
  std::vector<double> got(1000);
  const ps::Customer::RecvHandle handle = [&](const ps::Message& message) {
    if (message.meta.request) {
      // That was put into the queue below.
      require(message.meta.sender == 1 && message.meta.body == "from nowhere" &&
                  message.data.at(0).size() == 3,
              "a message that was put into the queue");
      got[999] = 1;
      return;
    }
    require_equal(message.meta.head, 77, "head");
    require_equal(message.meta.data_type.at(0), ps::DOUBLE, "the type of the answer");
    got.at(static_cast<size_t>(message.meta.timestamp)) +=
        ps::SArray<double>(message.data.at(0))[2];
    ++answers;
  };
  ps::Customer customer(kApp, 3, handle);
  ps::Van* const van = ps::Postoffice::Get()->van();
  for (int i = 0; i < 20; ++i) {
    const int timestamp = customer.NewRequest(ps::kServerGroup);
    require_equal(timestamp, i, "numbers of requests");
    for (const int server : ps::Postoffice::Get()->GetNodeIDs(ps::kServerGroup)) {
      ps::Message message = question(&customer, server, i + 0.5);
      message.meta.timestamp = timestamp;
      van->Send(message);
    }
    customer.WaitRequest(timestamp);
    require_equal(customer.NumResponse(timestamp), ps::NumServers(), "NumResponse");
    require_equal(got.at(static_cast<size_t>(i)), ps::NumServers() * (i + 0.5),
                  "what was answered");
  }
  require_equal(answers.load(), 20 * ps::NumServers(), "answers");

  // An answer that will not come is counted by hand.
  const int short_one = customer.NewRequest(ps::kServerGroup);
  ps::Message message = question(&customer, 8, 1);
  message.meta.timestamp = short_one;
  van->Send(message);
  customer.AddResponse(short_one, ps::NumServers() - 1);
  customer.WaitRequest(short_one);

  ps::Message mine;
  mine.meta.app_id = kApp;
  mine.meta.request = true;
  mine.meta.sender = 1;
  mine.meta.body = "from nowhere";
  mine.AddData(ps::SArray<char>(3));
  customer.Accept(mine);
  for (int i = 0; i < 5000 && got[999] == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  require_equal(got[999], 1.0, "a message that was put into the queue comes");

  // What cannot be sent.
  message = question(&customer, 1000, 1);
  require_text(thrown_by([&] { van->Send(message); }, "no such node"), "no node of this job",
               "Van::Send");
  message = question(&customer, ps::kServerGroup, 1);
  thrown_by([&] { van->Send(message); }, "a group");
  message = question(&customer, 8, 1);
  for (int i = 0; i < 15; ++i) message.AddData(ps::SArray<char>(1));
  require_text(thrown_by([&] { van->Send(message); }, "too many arrays"), "at most 15",
               "Van::Send");
  message = ps::Message();
  message.meta.recver = 8;
  message.meta.control.cmd = ps::Control::TERMINATE;
  thrown_by([&] { van->Send(message); }, "a control message");
  thrown_by([&] { ps::Postoffice::Get()->Manage(message); }, "a control message to the postoffice");
  require_text(thrown_by([] { ps::Van::Create("carrier pigeon"); }, "a van that does not exist"),
               "carrier pigeon", "Van::Create");
  const std::unique_ptr<ps::Van> other(ps::Van::Create("zmq"));
  require(&other->my_node() == &van->my_node() && other->GetType() == "zmq",
          "a van of the same node");
}

// A message to a KVServer that it cannot understand does no harm.
void confuse() {
  ps::Customer customer(0, 9, [](const ps::Message&) {});
  ps::Message odd;
  odd.meta.app_id = 0;
  odd.meta.customer_id = 9;
  odd.meta.request = odd.meta.push = true;
  odd.meta.recver = 8;
  odd.meta.timestamp = customer.NewRequest(8);
  odd.AddData(ps::SArray<ps::Key>({1}));
  ps::Postoffice::Get()->van()->Send(odd);
}

}  // namespace

int main() {
  if (std::string(std::getenv("DMLC_ROLE")) == "worker") {
    std::thread second([] { customer(1); });
    customer(0);
    ask();
    confuse();
    ps::Finalize(0, true);
    second.join();
    return all_is_right();
  }
  // Before the start: what comes early waits.
  std::unique_ptr<ps::KVServer<float>> server;
  std::unique_ptr<ps::Customer> own;
  const bool is_server = std::string(std::getenv("DMLC_ROLE")) == "server";
  if (is_server) {
    server.reset(new ps::KVServer<float>(0));
    server->set_request_handle(ps::KVServerDefaultHandle<float>());
    own.reset(new ps::Customer(kApp, kApp, answer));
  }
  ps::Start(0);
  require(ps::IsServer() == is_server, "the role");
  ps::Finalize(0, true);
  return all_is_right();
}
