// The command's connection to the coordinator: every RPC with header and deadline, every failure as one clear line.
//
//   CoordinatorClient client("127.0.0.1:7411");
//   ADJOIN_ASSIGN_OR_RETURN(ListJobsResponse jobs, client.ListJobs());
//
// Errors of all methods: what the coordinator said; kUnavailable with how to start one where none answers. One thread.
#ifndef ADJOIN_CLI_COORDINATOR_CLIENT_H_
#define ADJOIN_CLI_COORDINATOR_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/coordinator.grpc.pb.h"

namespace adjoin {

class CoordinatorClient {
 public:
  explicit CoordinatorClient(std::string address);

  // `spec_file`: what messages call it. Returns the job's id.
  absl::StatusOr<std::string> Submit(const std::string& spec_source, const std::string& spec_file);
  absl::StatusOr<ListJobsResponse> ListJobs();
  absl::StatusOr<DescribeJobResponse> DescribeJob(const std::string& job);
  absl::StatusOr<JobState> CancelJob(const std::string& job);

  // Calls `on_update` with every change until it has seen a final state. `context` lets another thread break it off
  // (kCancelled).
  absl::Status FollowJob(const std::string& job, grpc::ClientContext& context,
                         const std::function<void(const JobSummary&)>& on_update);
  absl::Status ReadLogs(const std::string& job, const std::vector<uint32_t>& ranks, bool follow,
                        const std::function<void(const LogLine&)>& on_line);
  // `on_data` is called with parts of the file in order; an error that it returns breaks the transfer off.
  // Errors also: kDataLoss (fewer bytes came than were announced).
  absl::Status GetArtifact(const std::string& job, const std::string& name,
                           const std::function<absl::Status(const std::string&)>& on_data);

 private:
  absl::Status Check(const grpc::Status& status);

  const std::string address_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Adjoin::Stub> stub_;
};

}  // namespace adjoin

#endif  // ADJOIN_CLI_COORDINATOR_CLIENT_H_
