// A coordinator that has jobs of any names, which a real one refuses. Prints where it listens; ends with its standard
// input.
//
//   hostile_coordinator NAME...      jobs of these names, job-1, job-2, ...
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/coordinator.grpc.pb.h"

namespace {

class HostileCoordinator : public adjoin::Adjoin::Service {
 public:
  explicit HostileCoordinator(std::vector<std::string> names) : names_(std::move(names)) {}

  grpc::Status ListJobs(grpc::ServerContext*, const adjoin::ListJobsRequest*,
                        adjoin::ListJobsResponse* response) override {
    for (const std::string& name : names_) {
      adjoin::JobSummary& job = *response->add_job();
      job.set_job_id(absl::StrCat("job-", response->job_size()));
      job.set_name(name);
      job.set_state(adjoin::RUNNING);
    }
    return grpc::Status::OK;
  }

 private:
  const std::vector<std::string> names_;
};

}  // namespace

int main(int argc, char** argv) {
  HostileCoordinator service({argv + 1, argv + argc});
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    std::cerr << "hostile_coordinator: cannot listen" << std::endl;
    return 1;
  }
  std::cout << "127.0.0.1:" << port << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
  }
  server->Shutdown(std::chrono::system_clock::now());
  return 0;
}
