#include "bench/control_plane_programs.h"

#include <grpcpp/grpcpp.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "bench/simulated_workers.h"
#include "layers/builtin/builtin_rules.h"
#include "proto/grpc_status.h"
#include "proto/protocol.h"
#include "tests/page/page_client.h"

namespace adjoin {
namespace {

constexpr char kSpec[] = R"(name: "queued" kind: TRAIN ranks: 1 seed: 1
  layer { name: "flat" input: "image" flatten { arg: 1 } }
  layer { name: "fc" linear { out_features: 10 } }
  loss { kind: "cross_entropy" input: "fc" target: "label" }
  dataset { name: "train"
    field { name: "image" idx { path: "images.idx.gz" } shape: [1, 28, 28] }
    field { name: "label" idx { path: "labels.idx.gz" } dtype: "int64" } }
  train { dataset: "train" batch: 64 epochs: 1 optimizer { sgd { lr: 0.01 } } }
)";

constexpr char kSyntheticSpec[] = R"(name: "queued" kind: TRAIN ranks: 1 seed: 1
  layer { name: "flat" input: "image" flatten { arg: 1 } }
  layer { name: "fc" linear { out_features: 10 } }
  loss { kind: "cross_entropy" input: "fc" target: "label" }
  dataset { name: "train"
    field { name: "image" synthetic { kind: "normal" samples: 100 } shape: [1, 28, 28] }
    field { name: "label" synthetic { kind: "index" high: 10 samples: 100 } dtype: "int64" } }
  train { dataset: "train" batch: 64 epochs: 1 optimizer { sgd { lr: 0.01 } } }
)";

absl::Status Stopped() { return absl::CancelledError("stopped by a signal"); }

}  // namespace

ControlPlane::ControlPlane(Options options, const StopSignal& stop) : options_(std::move(options)), stop_(stop) {}

ControlPlane::~ControlPlane() {
  programs_.clear();
  coordinator_.reset();
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

absl::Status ControlPlane::Start() {
  folder_ = options_.folder + "/control-plane-XXXXXX";
  if (mkdtemp(folder_.data()) == nullptr) return absl::UnavailableError(absl::StrCat(folder_, " cannot be made"));
  ADJOIN_ASSIGN_OR_RETURN(
      coordinator_,
      ChildProgram::Start({options_.coordinator_binary, "--listen", "127.0.0.1:0", "--port-file", folder_ + "/address",
                           "--state-dir", folder_ + "/state", "--keep-jobs", "1000000", "--page-listen", "127.0.0.1:0"},
                          {}, folder_ + "/coordinator"));
  const Deadline deadline = Deadline::After(absl::Seconds(30));
  while (address_.empty()) {
    address_ = ReadFile(folder_ + "/address");
    if (stop_.Came()) return Stopped();
    if (deadline.Expired() || coordinator_->Wait(Deadline::After(absl::Milliseconds(10))).ok()) {
      return absl::UnavailableError(absl::StrCat("no coordinator: ", coordinator_->Errors()));
    }
  }
  address_.pop_back();
  while ((page_port_ = PagePortIn(coordinator_->Errors())) == 0) {
    if (stop_.Came()) return Stopped();
    if (deadline.Expired()) return absl::UnavailableError(absl::StrCat("no page: ", coordinator_->Errors()));
    absl::SleepFor(absl::Milliseconds(10));
  }
  return absl::OkStatus();
}

absl::Status ControlPlane::StartWorkers() {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  int first = 0;
  for (int p = 0; p < options_.processes; ++p) {
    const int count = (options_.workers - first) / (options_.processes - p);
    ADJOIN_ASSIGN_OR_RETURN(auto program, ChildProgram::Start({self, "--simulate", address_, "--workers",
                                                               absl::StrCat(count), "--first", absl::StrCat(first)},
                                                              {}, absl::StrCat(folder_, "/workers-", p)));
    programs_.push_back(std::move(program));
    first += count;
  }
  for (auto& program : programs_) {
    for (Deadline deadline = Deadline::After(absl::Seconds(120)); program->Output().empty();) {
      if (stop_.Came()) return Stopped();
      if (deadline.Expired() || program->Wait(Deadline::After(absl::Milliseconds(20))).ok()) {
        return absl::UnavailableError(absl::StrCat("the simulated workers do not connect: ", program->Errors()));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ControlPlane::Pause(double seconds) const {
  for (const absl::Time end = absl::Now() + absl::Seconds(seconds); absl::Now() < end;) {
    if (stop_.Came()) return Stopped();
    absl::SleepFor(std::min(absl::Milliseconds(50), end - absl::Now()));
  }
  return absl::OkStatus();
}

std::unique_ptr<Adjoin::Stub> ControlPlane::NewStub() const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(64 << 20);
  return Adjoin::NewStub(grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments));
}

absl::StatusOr<std::vector<double>> ControlPlane::Submit(int count, double* seconds) {
  std::atomic<int> left{count};
  std::vector<std::vector<double>> times(options_.users);
  std::vector<absl::Status> failed(options_.users);
  std::vector<std::thread> users;
  const absl::Time begin = absl::Now();
  for (int user = 0; user < options_.users; ++user) {
    users.emplace_back([&, user] {
      std::unique_ptr<Adjoin::Stub> stub = NewStub();
      while (failed[user].ok() && left.fetch_sub(1) > 0) {
        if (stop_.Came()) {
          failed[user] = Stopped();
          break;
        }
        const absl::Time start = absl::Now();
        grpc::ClientContext context;
        context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
        SubmitRequest request;
        *request.mutable_header() = MakeHeader();
        request.set_spec_source(
            options_.synthetic ? absl::StrCat(kSyntheticSpec, "output_dir: \"out/", ++submitted_, "\"") : kSpec);
        SubmitResponse response;
        failed[user] = FromGrpc(stub->Submit(&context, request, &response));
        times[user].push_back(absl::ToDoubleSeconds(absl::Now() - start));
      }
    });
  }
  for (std::thread& user : users) user.join();
  *seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  std::vector<double> all;
  for (int user = 0; user < options_.users; ++user) {
    ADJOIN_RETURN_IF_ERROR(failed[user]);
    all.insert(all.end(), times[user].begin(), times[user].end());
  }
  return all;
}

absl::StatusOr<ListJobsResponse> ControlPlane::List() const {
  ListJobsRequest request;
  *request.mutable_header() = MakeHeader();
  ListJobsResponse all;
  std::unique_ptr<Adjoin::Stub> stub = NewStub();
  do {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    ListJobsResponse page;
    ADJOIN_RETURN_IF_ERROR(FromGrpc(stub->ListJobs(&context, request, &page)));
    request.set_page_token(page.next_page_token());
    all.MergeFrom(page);
  } while (!request.page_token().empty());
  return all;
}

absl::Status ControlPlane::CancelRunning(int count) {
  ADJOIN_ASSIGN_OR_RETURN(ListJobsResponse list, List());
  std::unique_ptr<Adjoin::Stub> stub = NewStub();
  for (const JobSummary& job : list.job()) {
    if (job.state() != RUNNING) continue;
    if (count-- == 0) break;
    if (stop_.Came()) return Stopped();
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    CancelJobRequest request;
    *request.mutable_header() = MakeHeader();
    request.set_job_id(job.job_id());
    CancelJobResponse response;
    ADJOIN_RETURN_IF_ERROR(FromGrpc(stub->CancelJob(&context, request, &response)));
  }
  return absl::OkStatus();
}

std::vector<double> ControlPlane::Seen::Between(absl::Time begin, absl::Time end) const {
  std::vector<double> seconds;
  for (const auto& [at, value] : time) {
    if (at >= begin && at < end) seconds.push_back(value);
  }
  return seconds;
}

ControlPlane::WorkersSaw ControlPlane::StopWorkers() {
  WorkersSaw saw;
  for (auto& program : programs_) program->Stop(Deadline::After(absl::Seconds(30))).IgnoreError();
  for (auto& program : programs_) {
    std::istringstream output(program->Output());
    std::string word;
    while (output >> word) {
      double at = 0, seconds = 0;
      if (word == "lost" && output >> seconds) saw.lost += static_cast<int>(seconds);
      if (word != "heartbeat" && word != "restart") continue;
      output >> at >> seconds;
      (word == "restart" ? saw.restart : saw.heartbeat)
          .time.emplace_back(absl::UnixEpoch() + absl::Seconds(at), seconds);
    }
  }
  return saw;
}

int SimulateWorkers(const std::string& coordinator, int first, int count, StopSignal& stop) {
  SimulatedWorkers workers({.coordinator = coordinator,
                            .first = first,
                            .count = count,
                            .slots = 1,
                            .builders = BuiltinLayerRules().Kinds()});
  const absl::Status connected = workers.Connect(Deadline::After(absl::Seconds(120)), [&] { return stop.Came(); });
  if (stop.Came()) _exit(1);  // as below
  if (!connected.ok()) {
    std::cerr << connected << std::endl;
    return 1;
  }
  std::cout << "connected" << std::endl;
  stop.Wait();
  const int lost = workers.lost();
  const SimulatedWorkers::Times times = workers.TakeTimes();
  const auto print = [](const char* what, const SimulatedWorkers::Time& time) {
    std::cout << what << " " << absl::StrFormat("%.6f", absl::ToUnixMicros(time.begin) * 1e-6) << " " << time.seconds
              << "\n";
  };
  for (const SimulatedWorkers::Time& time : times.heartbeat) print("heartbeat", time);
  for (const SimulatedWorkers::Time& time : times.restart) print("restart", time);
  std::cout << "lost " << lost << std::endl;
  _exit(0);  // a thousand streams need not be taken down one by one
}

}  // namespace adjoin
