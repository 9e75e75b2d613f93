#include "tests/harness/local_cluster.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "proto/grpc_status.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kStartTimeout = absl::Seconds(60);
constexpr absl::Duration kCallTimeout = absl::Seconds(30);
constexpr absl::Duration kStopTimeout = absl::Seconds(20);
constexpr absl::Duration kCliTimeout = absl::Seconds(300);
constexpr absl::Duration kPoll = absl::Milliseconds(20);

void SetDeadline(grpc::ClientContext& context, absl::Duration time) {
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(time));
}

bool IsFinal(JobState state) { return state == SUCCEEDED || state == FAILED || state == CANCELLED; }

}  // namespace

LocalCluster::LocalCluster(int nodes, int slots, LocalClusterOptions options)
    : nodes_(nodes), slots_(slots), options_(std::move(options)), workers_(nodes) {}

absl::StatusOr<std::unique_ptr<LocalCluster>> LocalCluster::Start(int nodes, int slots_per_node,
                                                                  LocalClusterOptions options) {
  std::unique_ptr<LocalCluster> cluster(new LocalCluster(nodes, slots_per_node, std::move(options)));
  absl::Status status = cluster->StartAll();
  if (!status.ok()) {
    cluster->ShowLogs();
    return status;
  }
  return cluster;
}

absl::Status LocalCluster::StartAll() {
  const char* temporary = getenv("TEST_TMPDIR");
  std::string pattern = absl::StrCat(temporary == nullptr ? "/tmp" : temporary, "/cluster-XXXXXX");
  if (mkdtemp(pattern.data()) == nullptr) return absl::UnavailableError(absl::StrCat(pattern, " cannot be made"));
  folder_ = pattern;
  data_root_ = folder_ + "/data";
  output_root_ = folder_ + "/output";
  fs::create_directories(data_root_ + "/mnist");
  fs::create_directories(output_root_);
  // Copies: runfiles are links to elsewhere, and a daemon follows no link out of its data root.
  for (const auto& entry : fs::directory_iterator(Runfile("examples/mnist"))) {
    if (entry.path().extension() == ".gz")
      fs::copy_file(entry.path(), fs::path(data_root_) / "mnist" / entry.path().filename());
  }
  ADJOIN_RETURN_IF_ERROR(StartCoordinator());
  for (int node = 0; node < nodes_; ++node) ADJOIN_RETURN_IF_ERROR(StartWorker(node));
  return WaitForWorkers(Deadline::After(kStartTimeout));
}

absl::Status LocalCluster::StartCoordinator(const std::vector<std::string>& more_flags) {
  std::string port_file = folder_ + "/address";
  std::error_code ignored;
  fs::remove(port_file, ignored);
  const std::string listen = address_.empty() ? options_.listen : address_;
  std::string told;
  const std::string binary =
      options_.coordinator_binary.empty() ? "coordinator/adjoin-coordinator" : options_.coordinator_binary;
  std::vector<std::string> command = {Runfile(binary), "--listen",         listen, "--port-file", port_file,
                                      "--state-dir",   coordinator_state()};
  command.insert(command.end(), options_.coordinator_flags.begin(), options_.coordinator_flags.end());
  command.insert(command.end(), more_flags.begin(), more_flags.end());
  ADJOIN_ASSIGN_OR_RETURN(coordinator_, StartProgram(command, options_.coordinator, folder_ + "/coordinator-log"));
  Deadline deadline = Deadline::After(kStartTimeout);
  while (told.empty()) {
    told = ReadFile(port_file);
    if (coordinator_->Wait(Deadline::After(kPoll)).ok()) {
      return absl::UnavailableError(absl::StrCat("the coordinator ended: ", coordinator_->Errors()));
    }
    if (deadline.Expired()) return absl::DeadlineExceededError("the coordinator does not say where it listens");
  }
  address_ = told.substr(0, told.find_last_not_of('\n') + 1);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // no other channel's wait before it connects again
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  stub_ = Adjoin::NewStub(grpc::CreateCustomChannel(
      address_, options_.credentials != nullptr ? options_.credentials : grpc::InsecureChannelCredentials(),
      arguments));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ChildProgram>> LocalCluster::StartProgram(std::vector<std::string> command,
                                                                         const ProgramOptions& options,
                                                                         const std::string& output) {
  command.insert(command.begin(), options.prefix.begin(), options.prefix.end());
  command.insert(command.end(), options.flags.begin(), options.flags.end());
  std::vector<std::string> environment = options.environment;  // the first of two entries counts
  environment.insert(environment.end(), options_.environment.begin(), options_.environment.end());
  return ChildProgram::Start(command, environment, output);
}

absl::Status LocalCluster::StartWorker(int node) {
  std::string name = absl::StrCat("worker-", node);
  const auto root = [node](const std::map<int, std::string>& others, const std::string& own) {
    const auto other = others.find(node);
    return other == others.end() ? own : other->second;
  };
  const auto memory = options_.memory_bytes.find(node);
  const std::string binary = options_.worker_binary.empty() ? "worker/adjoin-worker" : options_.worker_binary;
  std::vector<std::string> command = {
      Runfile(binary),
      "--coordinator",
      address_,
      "--name",
      name,
      "--slots",
      absl::StrCat(slots_),
      "--memory",
      absl::StrCat(memory != options_.memory_bytes.end() ? memory->second : uint64_t{1} << 40),
      "--data-root",
      root(options_.data_root, data_root_),
      "--output-root",
      root(options_.output_root, output_root_),
      "--state-dir",
      absl::StrCat(folder_, "/", name),
      "--rank-binary",
      Runfile(options_.rank_binary.empty() ? "worker/adjoin-rank" : options_.rank_binary)};
  command.insert(command.end(), options_.worker_flags.begin(), options_.worker_flags.end());
  const auto own = options_.worker.find(node);
  ADJOIN_ASSIGN_OR_RETURN(workers_[node],
                          StartProgram(command, own == options_.worker.end() ? ProgramOptions() : own->second,
                                       absl::StrCat(folder_, "/", name, "-log")));
  return absl::OkStatus();
}

absl::Status LocalCluster::Insist(const std::function<grpc::Status(grpc::ClientContext&)>& call, Deadline deadline) {
  while (true) {
    grpc::ClientContext context;
    SetDeadline(context, deadline.Remaining());
    absl::Status status = FromGrpc(call(context));
    if (status.code() != absl::StatusCode::kUnavailable || deadline.Expired()) return status;
    absl::SleepFor(kPoll);
  }
}

absl::Status LocalCluster::WaitForWorkers(Deadline deadline) {
  while (true) {
    ADJOIN_ASSIGN_OR_RETURN(ListJobsResponse response, ListJobs());
    int ready = 0;
    for (const WorkerSummary& worker : response.worker()) ready += worker.state().empty() || worker.state() == "ready";
    if (ready == nodes_) return absl::OkStatus();
    for (auto& worker : workers_) {
      if (worker->Wait(Deadline::After(kPoll)).ok()) {
        return absl::UnavailableError(absl::StrCat("a worker ended: ", worker->Errors()));
      }
    }
    if (deadline.Expired()) {
      return absl::DeadlineExceededError(absl::StrCat("the workers do not connect: ", response.ShortDebugString()));
    }
  }
}

absl::StatusOr<std::string> LocalCluster::Submit(const std::string& spec_text, const std::string& idempotency_key) {
  SubmitRequest request;
  *request.mutable_header() = MakeHeader();
  request.set_spec_source(spec_text);
  request.set_spec_file("test.textproto");
  request.set_idempotency_key(idempotency_key);
  request.set_replace_output(true);
  SubmitResponse response;
  // Without a key a submission that got no answer must not be made again.
  const Deadline deadline = Deadline::After(idempotency_key.empty() ? absl::ZeroDuration() : kStartTimeout);
  auto submit = [&](grpc::ClientContext& context) {
    SetDeadline(context, kStartTimeout);
    return stub_->Submit(&context, request, &response);
  };
  ADJOIN_RETURN_IF_ERROR(Insist(submit, deadline));
  return response.job_id();
}

absl::StatusOr<JobSummary> LocalCluster::WaitUntil(const std::string& job,
                                                   const std::function<bool(const JobSummary&)>& holds,
                                                   Deadline deadline) {
  FollowJobRequest request;
  *request.mutable_header() = MakeHeader();
  request.set_job_id(job);
  FollowJobResponse response;
  bool found = false;
  auto follow = [&](grpc::ClientContext& context) {
    std::unique_ptr<grpc::ClientReader<FollowJobResponse>> reader = stub_->FollowJob(&context, request);
    while (!found && reader->Read(&response)) found = holds(response.job());
    if (found) context.TryCancel();
    const grpc::Status status = reader->Finish();
    return found ? grpc::Status::OK : status;
  };
  absl::Status status = Insist(follow, deadline);
  if (found) return response.job();
  std::string last = absl::StrCat(job, " is ", JobState_Name(response.job().state()), " ", response.job().reason());
  if (status.ok()) return absl::FailedPreconditionError(last);
  return absl::Status(status.code(), absl::StrCat(std::string(status.message()), "; ", last));
}

absl::StatusOr<JobSummary> LocalCluster::WaitFor(const std::string& job, Deadline deadline) {
  return WaitUntil(
      job, [](const JobSummary& summary) { return IsFinal(summary.state()); }, deadline);
}

absl::StatusOr<DescribeJobResponse> LocalCluster::Describe(const std::string& job) {
  DescribeJobRequest request;
  *request.mutable_header() = MakeHeader();
  request.set_job_id(job);
  DescribeJobResponse response;
  ADJOIN_RETURN_IF_ERROR(
      Insist([&](grpc::ClientContext& context) { return stub_->DescribeJob(&context, request, &response); },
             Deadline::After(kCallTimeout)));
  return response;
}

absl::StatusOr<ListJobsResponse> LocalCluster::ListJobs() {
  ListJobsRequest request;
  *request.mutable_header() = MakeHeader();
  ListJobsResponse response;
  ADJOIN_RETURN_IF_ERROR(
      Insist([&](grpc::ClientContext& context) { return stub_->ListJobs(&context, request, &response); },
             Deadline::After(kCallTimeout)));
  return response;
}

absl::Status LocalCluster::WaitUntilIdle(Deadline deadline) {
  while (true) {
    ADJOIN_ASSIGN_OR_RETURN(ListJobsResponse response, ListJobs());
    bool idle = true;
    for (const WorkerSummary& worker : response.worker()) idle = idle && worker.free_slots() == worker.slots();
    if (idle) return absl::OkStatus();
    if (deadline.Expired())
      return absl::DeadlineExceededError(absl::StrCat("slots stay taken: ", response.ShortDebugString()));
    absl::SleepFor(kPoll);
  }
}

absl::StatusOr<std::vector<pid_t>> LocalCluster::RankPids(const std::string& job) {
  ADJOIN_ASSIGN_OR_RETURN(DescribeJobResponse described, Describe(job));
  std::vector<pid_t> pids;
  for (const RankStatus& rank : described.rank()) pids.push_back(static_cast<pid_t>(rank.pid()));
  return pids;
}

absl::Status LocalCluster::KillRank(const std::string& job, int rank, int signal) {
  ADJOIN_ASSIGN_OR_RETURN(std::vector<pid_t> pids, RankPids(job));
  if (rank >= static_cast<int>(pids.size()) || pids[rank] <= 0) {
    return absl::FailedPreconditionError(absl::StrCat("rank ", rank, " of ", job, " has no process"));
  }
  if (kill(pids[rank], signal) != 0) return absl::UnavailableError(absl::StrCat("process ", pids[rank], " is gone"));
  return absl::OkStatus();
}

absl::Status LocalCluster::KillWorker(int node) {
  workers_[node]->Signal(SIGKILL);
  return workers_[node]->Wait(Deadline::After(kStopTimeout)).status();
}

absl::Status LocalCluster::WaitForWorkerEnd(int node, Deadline deadline) {
  ADJOIN_ASSIGN_OR_RETURN(int code, workers_[node]->Wait(deadline));
  if (code == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("worker-", node, " ended with exit code ", code, ": ", workers_[node]->Errors()));
}

absl::Status LocalCluster::KillCoordinator() {
  coordinator_->Signal(SIGKILL);
  return coordinator_->Wait(Deadline::After(kStopTimeout)).status();
}

absl::Status LocalCluster::StopCoordinator() {
  ADJOIN_ASSIGN_OR_RETURN(const int code, coordinator_->Stop(Deadline::After(kStopTimeout)));
  return code == 0 ? absl::OkStatus() : absl::InternalError(absl::StrCat("the coordinator's exit code is ", code));
}

absl::Status LocalCluster::RestartCoordinator() {
  ADJOIN_RETURN_IF_ERROR(StartCoordinator());
  return WaitForWorkers(Deadline::After(kStartTimeout));
}

LocalCluster::CliResult LocalCluster::Cli(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {Runfile("cli/adjoin")};
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.insert(command.end(), options_.cli_flags.begin(), options_.cli_flags.end());
  CliResult result;
  std::vector<std::string> environment = options_.environment;
  environment.push_back("ADJOIN_COORDINATOR=" + address_);
  auto child = ChildProgram::Start(command, environment, absl::StrCat(folder_, "/cli-", ++commands_));
  if (!child.ok()) {
    result.err = child.status().ToString();
    return result;
  }
  absl::StatusOr<int> code = (*child)->Wait(Deadline::After(kCliTimeout));
  if (code.ok()) result.exit_code = *code;
  result.out = (*child)->Output();
  result.err = code.ok() ? (*child)->Errors() : code.status().ToString();
  return result;
}

void LocalCluster::ShowLogs() {
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(folder_, ignored)) {
    std::string name = entry.path().filename().string();
    bool log = entry.path().extension() == ".err" || name.rfind("log-", 0) == 0;
    if (!log || !entry.is_regular_file(ignored)) continue;
    std::string text = ReadFile(entry.path());
    if (text.size() > 8000) text = "..." + text.substr(text.size() - 8000);
    if (!text.empty()) std::cerr << "--- " << entry.path().lexically_relative(folder_).string() << "\n" << text;
  }
}

absl::Status LocalCluster::Stop() {
  absl::Status result;
  auto stop = [&](std::unique_ptr<ChildProgram>& program, const std::string& name) {
    if (program == nullptr) return;
    absl::StatusOr<int> code = program->Stop(Deadline::After(kStopTimeout));
    if (!code.ok()) result.Update(code.status());
    if (code.ok() && *code != 0)
      result.Update(absl::InternalError(absl::StrCat(name, " ended with exit code ", *code)));
    program.reset();
  };
  for (int node = 0; node < nodes_; ++node) stop(workers_[node], absl::StrCat("worker-", node));
  stop(coordinator_, "the coordinator");
  return result;
}

LocalCluster::~LocalCluster() {
  workers_.clear();
  coordinator_.reset();
  if (::testing::Test::HasFailure()) ShowLogs();
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

}  // namespace adjoin
