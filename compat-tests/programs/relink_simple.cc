// Commands through ps/simple_app.h: to each group and to single nodes, answered at once, later from
// another thread, with an error; texts of any bytes; and beside the requests of KVWorker and
// KVServer.
#include <ps/ps.h>

#include <atomic>
#include <deque>
#include <map>
#include <thread>

#include "relink.h"

namespace {

const int kTimes = 100;
const std::string kBytes("zero \0 and \xff", 12);

ps::Postoffice* office() { return ps::Postoffice::Get(); }

// ---- upstream's test: the scheduler asks everybody, itself too

void to_everybody() {
  ps::SimpleApp app(0, 0);
  std::atomic<int> handled(0);
  app.set_request_handle([&handled](const ps::SimpleData& request, ps::SimpleApp* self) {
    require_equal(request.sender, 1, "the scheduler asks");
    require_equal(request.head, 1, "the number of the command");
    require_equal(request.body, std::string("test"), "its text");
    self->Response(request);
    ++handled;
  });
  if (ps::IsScheduler()) {
    std::vector<int> timestamps;
    for (int i = 0; i < kTimes; ++i) timestamps.push_back(app.Request(1, "test", 7));
    for (const int timestamp : timestamps) app.Wait(timestamp);
  }
  office()->Barrier(0, 7);
  require_equal(handled.load(), kTimes, "commands that were handled");
}

// ---- everybody asks each group and each node: the customer has the number of the app then,
// everywhere

// Workers have no connection to other workers, nor servers to servers (upstream too).
bool is_reachable(int receiver) {
  const int me = office()->van()->my_node().id;
  for (const int id : office()->GetNodeIDs(receiver)) {
    if (id != me && me != 1 && id != 1 && id % 2 == me % 2) return false;
  }
  return true;
}

void to_each_group() {
  ps::SimpleApp app(1, 1);
  std::atomic<int> answers(0);
  app.set_request_handle([](const ps::SimpleData& request, ps::SimpleApp* self) {
    require_equal(request.body, kBytes, "bytes of any value");
    self->Response(request, request.body + std::to_string(request.head));
  });
  app.set_response_handle([&answers](const ps::SimpleData& response, ps::SimpleApp*) {
    if (response.head == 0) return;  // Of a command that did not reach all.
    require_equal(response.body, kBytes + std::to_string(response.head), "the answer");
    ++answers;
  });
  require(app.get_customer()->app_id() == 1 && app.get_customer()->customer_id() == 1,
          "its customer");
  office()->Barrier(0, 7);
  int wanted = 0;
  std::vector<int> receivers = {1, 2, 3, 4, 5, 6, 7};
  for (const int id : office()->GetNodeIDs(7)) receivers.push_back(id);
  for (const int receiver : receivers) {
    if (!is_reachable(receiver)) {
      thrown_by([&] { app.Request(0, kBytes, receiver); }, "a command to another of the same role");
      continue;
    }
    const int timestamp = app.Request(receiver + 1000, kBytes, receiver);
    app.Wait(timestamp);
    wanted += static_cast<int>(office()->GetNodeIDs(receiver).size());
    require_equal(answers.load(), wanted, "answers that were handled before Wait returns");
    require_equal(app.get_customer()->NumResponse(timestamp), office()->GetNodeIDs(receiver).size(),
                  "NumResponse");
  }
  thrown_by([&] { app.Request(0, "", 1000); }, "a command to nobody");
  office()->Barrier(0, 7);
}

// ---- no handle, a handle that throws, answers that come late

void other_answers() {
  ps::SimpleApp silent(2, 2);
  ps::SimpleApp app(3, 3);
  std::deque<ps::SimpleData> waiting;
  std::mutex mutex;
  app.set_request_handle([&](const ps::SimpleData& request, ps::SimpleApp*) {
    if (request.head == 2)
      throw std::runtime_error("that is too much for " + std::to_string(ps::MyRank()));
    std::lock_guard<std::mutex> lock(mutex);
    waiting.push_back(request);
  });
  std::atomic<bool> over(false);
  std::thread late([&] {
    while (!over) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::lock_guard<std::mutex> lock(mutex);
      while (!waiting.empty()) {
        app.Response(waiting.back(), "late");
        waiting.pop_back();
      }
    }
  });
  office()->Barrier(0, 7);
  const int others = ps::IsScheduler()
                         ? 7
                         : ps::kScheduler + (ps::IsWorker() ? ps::kServerGroup : ps::kWorkerGroup);
  silent.Wait(silent.Request(5, "anybody?", others));
  std::vector<int> timestamps;
  for (int i = 0; i < 20; ++i) timestamps.push_back(app.Request(1, "", others));
  for (const int timestamp : timestamps) app.Wait(timestamp);
  const int refused = app.Request(2, "", others);
  require_text(thrown_by([&] { app.Wait(refused); }, "a command that is refused"), "too much for",
               "Wait");
  app.Wait(app.Request(1, "", others));
  office()->Barrier(0, 7);
  over = true;
  late.join();
}

// ---- an app that sees each message by itself

class Own : public ps::SimpleApp {
 public:
  explicit Own(int app_id) : ps::SimpleApp(app_id, app_id) {}
  std::atomic<int> requests{0};
  std::atomic<int> answers{0};

 protected:
  void Process(const ps::Message& message) override {
    require_equal(message.meta.app_id, obj_->app_id(), "the app of a message");
    ++(message.meta.request ? requests : answers);
    ps::SimpleApp::Process(message);
  }
};

void by_itself() {
  Own app(6);
  office()->Barrier(0, 7);
  if (ps::IsWorker()) {
    const ps::SimpleApp::Handle handle = [&app](const ps::SimpleData&, ps::SimpleApp* self) {
      require(self == &app, "the app");
    };
    app.set_response_handle(handle);
    app.Wait(app.Request(1, "", ps::kScheduler));
    require_equal(app.answers.load(), 1, "answers that were seen");
  }
  office()->Barrier(0, 7);
  if (ps::IsScheduler())
    require_equal(app.requests.load(), ps::NumWorkers(), "commands that were seen");
}

// ---- commands to a KVServer, as MXNet and BytePS have them

void beside_values() {
  std::unique_ptr<ps::KVServer<float>> server;
  std::atomic<int> commands(0);
  if (ps::IsServer()) {
    server.reset(new ps::KVServer<float>(4));
    static_cast<ps::SimpleApp*>(server.get())
        ->set_request_handle([&commands](const ps::SimpleData& request, ps::SimpleApp* self) {
          ++commands;
          self->Response(request, "done");
        });
    server->set_request_handle(ps::KVServerDefaultHandle<float>());
  }
  if (ps::IsWorker()) {
    ps::KVWorker<float> worker(4, 0);
    std::atomic<int> answers(0);
    worker.set_response_handle([&answers](const ps::SimpleData& answer, ps::SimpleApp*) {
      require_equal(answer.body, std::string("done"), "the answer to a command");
      ++answers;
    });
    for (int i = 0; i < 10; ++i) {
      const int push = worker.Push({1, 2}, {1, 2});
      worker.Wait(worker.Request(3, "x", ps::kServerGroup));
      worker.Wait(push);
    }
    require_equal(answers.load(), 10 * ps::NumServers(), "answers to commands");
    office()->Barrier(0, ps::kWorkerGroup);
    std::vector<float> got;
    worker.Wait(worker.Pull({1, 2}, &got));
    require_equal(got.at(1), 20.f * static_cast<float>(ps::NumWorkers()), "values");
  }
  office()->Barrier(0, 7);
  if (ps::IsServer()) require_equal(commands.load(), 10 * ps::NumWorkers(), "commands");
}

}  // namespace

int main() {
  ps::Start(0);
  to_everybody();
  to_each_group();
  other_answers();
  beside_values();
  by_itself();
  ps::Finalize(0, true);
  return all_is_right();
}
