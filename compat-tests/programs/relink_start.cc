// A node's life through ps/ps.h, twice in one process: start, what is known of the job, barriers,
// the end. The second time with other settings, which RELINK_AGAIN names as NAME=value,...
#include <ps/ps.h>

#include <algorithm>

#include "relink.h"

namespace {

std::unordered_map<std::string, std::string> other_settings() {
  std::unordered_map<std::string, std::string> settings;
  std::istringstream text(std::getenv("RELINK_AGAIN"));
  std::string item;
  while (std::getline(text, item, ',')) {
    const size_t at = item.find('=');
    settings[item.substr(0, at)] = item.substr(at + 1);
  }
  return settings;
}

void look_at_the_node_of_the_process() {
  pslite_node* node = nullptr;
  require_equal(pslite_process_node(&node), static_cast<int>(PSLITE_OK), "it has one");
  pslite_node_info info;
  require_equal(pslite_node_describe(node, &info), static_cast<int>(PSLITE_OK), "it knows itself");
  require_equal(info.id, ps::Postoffice::Get()->van()->my_node().id, "the postoffice's");
}

void look_at_the_job(int workers, int servers) {
  ps::Postoffice* const office = ps::Postoffice::Get();
  look_at_the_node_of_the_process();
  require(office->van()->IsReady(), "the job is complete");
  require_equal(ps::NumWorkers(), workers, "workers");
  require_equal(ps::NumServers(), servers, "servers");
  const std::string role = ps::Environment::Get()->find("DMLC_ROLE");
  require(ps::IsWorker() == (role == "worker") && ps::IsServer() == (role == "server") &&
              ps::IsScheduler() == (role == "scheduler"),
          "the role");
  require(office->is_worker() == ps::IsWorker() && office->role_str() == role,
          "the role at the postoffice");
  require(!office->is_recovery(), "nobody has died");

  const ps::Node& me = office->van()->my_node();
  const int rank = ps::MyRank();
  require(rank >= 0 && rank < std::max(workers, servers), "a rank");
  const int id = ps::IsScheduler() ? ps::kScheduler
                 : ps::IsServer()  ? office->ServerRankToID(rank)
                                   : office->WorkerRankToID(rank);
  require_equal(me.id, id, "the id behind the rank");
  require(me.port > 0 && !me.hostname.empty() && me.num_ports == 1 && me.ports[0] == me.port,
          "an address");
  require_equal(std::string(std::getenv("DMLC_RANK")), std::to_string(rank), "DMLC_RANK");

  std::vector<int> all;
  for (int i = 0; i < workers; ++i) all.push_back(9 + 2 * i);
  for (int i = 0; i < servers; ++i) all.push_back(8 + 2 * i);
  all.push_back(1);
  require(office->GetNodeIDs(7) == all, "workers, then servers, then the scheduler");
  require(office->GetNodeIDs(ps::kServerGroup + ps::kScheduler) ==
              std::vector<int>(all.begin() + workers, all.end()),
          "servers and scheduler");
  require(office->GetNodeIDs(me.id) == std::vector<int>(1, me.id), "a single node");
  require_text(thrown_by([&] { office->GetNodeIDs(1000); }, "no such node"), "1000", "GetNodeIDs");

  const std::vector<ps::Range>& ranges = office->GetServerKeyRanges();
  require_equal(ranges.size(), static_cast<size_t>(servers), "one range for each server");
  const uint64_t share = ps::kMaxKey / static_cast<uint64_t>(servers);
  for (size_t i = 0; i < ranges.size(); ++i) {
    require(ranges[i].begin() == share * i && ranges[i].end() == share * (i + 1), "equal ranges");
  }
  require(&office->GetServerKeyRanges() == &ranges, "the same list");
  require(office->GetDeadNodes(60).empty() && office->GetDeadNodes(0).empty(), "nobody is dead");
  office->UpdateHeartbeat(8, 0);
  require(office->GetDeadNodes(60).empty(), "signs of life are counted by the library");
  require_equal(office->verbose(), ps::GetEnv("PS_VERBOSE", 0), "verbose");
  require(office->num_workers() == workers && office->num_servers() == servers,
          "counts at the postoffice");
  require(office->is_scheduler() == ps::IsScheduler() && office->is_server() == ps::IsServer(),
          "roles there");
  require(office->van()->GetTimestamp() + 1 == office->van()->GetTimestamp(),
          "a number for each message");
}

void barriers() {
  ps::Postoffice* const office = ps::Postoffice::Get();
  for (int i = 0; i < 3; ++i) {
    if (ps::IsWorker()) office->Barrier(0, ps::kWorkerGroup);
    if (ps::IsServer()) office->Barrier(0, ps::kServerGroup);
    if (!ps::IsScheduler()) office->Barrier(0, ps::kServerGroup + ps::kWorkerGroup);
    office->Barrier(0, 7);
  }
  if (ps::IsWorker()) {
    thrown_by([&] { office->Barrier(0, ps::kServerGroup); }, "a barrier of others");
  }
}

}  // namespace

int main(int, char** argv) {
  pslite_node* none = nullptr;
  require_equal(pslite_process_node(&none), static_cast<int>(PSLITE_NOT_STARTED), "no node yet");
  require_text(pslite_last_error(), "ps::Start", "what makes one");

  int ends = 0;
  ps::RegisterExitCallback([&ends] { ++ends; });

  ps::Start(0, argv[0]);
  look_at_the_job(setting("DMLC_NUM_WORKER"), setting("DMLC_NUM_SERVER"));
  const std::vector<ps::Range>& before = ps::Postoffice::Get()->GetServerKeyRanges();
  const uint64_t end = before[0].end();
  barriers();
  ps::Finalize(0);
  require_equal(ends, 1, "the exit callback");
  require_text(thrown_by([] { ps::MyRank(); }, "MyRank"), "call Start() first",
               "MyRank after the end");
  thrown_by(
      [] {
        ps::Postoffice::Get()->GetNodeIDs(7);
        ps::Finalize(0);
      },
      "a second end");
  require_equal(before[0].end(), end, "ranges of before");

  ps::Environment::Init(other_settings());
  ps::StartAsync(0);
  ps::Postoffice::Get()->Barrier(0, 7);
  look_at_the_job(setting("DMLC_NUM_WORKER"), ps::GetEnv("DMLC_NUM_SERVER", 0));
  barriers();
  ps::Finalize(0, true);
  require(ends >= 2, "the exit callback, again");
  return all_is_right();
}
