// The command's connection to the coordinator: every RPC with header and deadline, every failure as one clear line.
//
//   CoordinatorClient client(ClientOptions{.address = "127.0.0.1:7411"});
//   ADJOIN_ASSIGN_OR_RETURN(ListJobsResponse jobs, client.ListJobs());
//
// While the coordinator does not answer (nothing listens, the connection broke), calls are made again for
// ClientOptions::retry, and streams go on where they stopped: nothing that was handed out comes twice, nothing is left
// out. A connection whose server is trusted no more is left: calls and streams are made again by a new one, where there
// is another server. Two things are not made twice: a file of which a part has come breaks off, and a call that makes a
// token ends by itself, within 15 s.
//
// Errors of all methods: what the coordinator said; kUnavailable with how to start one where none answers;
// kUnauthenticated where it is not trusted, or is no more; kCancelled after Cancel. One thread, except Cancel.
#ifndef ADJOIN_CLI_COORDINATOR_CLIENT_H_
#define ADJOIN_CLI_COORDINATOR_CLIENT_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_interceptor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "base/security/server_watch.h"
#include "proto/coordinator.grpc.pb.h"

namespace adjoin {

struct ClientOptions {
  std::string address = "127.0.0.1:7411";
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  ServerCheck check_server;                  // of these credentials; empty: none
  absl::Duration retry = absl::Seconds(30);  // zero: a call that fails has failed
  // Is told, a line each, that the coordinator does not answer and is asked again. May be empty.
  std::function<void(const std::string&)> notice;
};

// Tests put themselves between the client and the network with these.
using InterceptorFactories = std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>;

// A random one. Any thread.
std::string NewIdempotencyKey();

struct Submission {
  std::string spec_source;
  std::string spec_file;  // what messages call it
  int32_t priority = 0;
  std::string idempotency_key;  // empty: a random one, so that Submit itself may ask again
  bool replace_output = false;  // what an earlier job left in its output_dir may be replaced
};

struct LogQuery {
  std::string job;
  std::vector<uint32_t> ranks;  // empty: all
  bool follow = false;
  int64_t since_unix_ms = 0;
};

class CoordinatorClient {
 public:
  explicit CoordinatorClient(ClientOptions options, InterceptorFactories interceptors = {});

  absl::StatusOr<SubmitResponse> Submit(const Submission& submission);
  // One page.
  absl::StatusOr<ListJobsResponse> ListJobs(const ListJobsRequest& request = {});
  absl::StatusOr<DescribeJobResponse> DescribeJob(const std::string& job);
  absl::StatusOr<JobState> CancelJob(const std::string& job);
  // The job's state now.
  absl::StatusOr<JobState> RetryJob(const std::string& job);
  // `files`: also what the job left on the worker's disk.
  absl::StatusOr<RemoveJobResponse> RemoveJob(const std::string& job, bool files);
  absl::Status HoldJob(const std::string& job);
  absl::Status ReleaseJob(const std::string& job);
  // The job's id, which a name may mean another one of later. `request_id`: as NewIdempotencyKey makes it; asking again
  // with the same one is the same request.
  absl::StatusOr<std::string> TraceJob(const std::string& job, uint32_t steps, const std::string& request_id);
  // Is not made again once it may have reached the coordinator: that would be another token.
  absl::StatusOr<CreateTokenResponse> CreateToken(const std::string& user, const std::string& role, double valid_hours);
  // Each kind of node once.
  absl::StatusOr<ReadRatesResponse> ReadRates();
  absl::StatusOr<ListTokensResponse> ListTokens();
  absl::Status RevokeToken(const std::string& id);
  // `node`: empty for any. As CreateToken, it is not made again once it may have reached the coordinator.
  absl::StatusOr<CreateJoinTokenResponse> CreateJoinToken(const std::string& node, uint32_t uses, double valid_hours);
  absl::StatusOr<RevokeNodeResponse> RevokeNode(const std::string& node);

  // Calls `on_update` with every change until it has seen a final state.
  absl::Status FollowJob(const std::string& job, const std::function<void(const JobSummary&)>& on_update);
  absl::Status ReadLogs(const LogQuery& query, const std::function<void(const LogLine&)>& on_line);
  absl::Status ReadEvents(const std::string& job, bool follow, const std::function<void(const JobEvent&)>& on_event);
  // `on_data` is called with parts of the file in order; an error that it returns breaks the transfer off.
  // Errors also: kDataLoss (fewer bytes came than were announced).
  absl::Status GetArtifact(const std::string& job, const std::string& name,
                           const std::function<absl::Status(const std::string&)>& on_data);
  // The same for any request; a chunk's header has the attempt that wrote the file.
  absl::Status GetArtifact(GetArtifactRequest request,
                           const std::function<absl::Status(const ArtifactChunk&)>& on_chunk);

  // Ends the call or stream that another thread waits for, and all later ones, with kCancelled.
  void Cancel();

 private:
  // How long the coordinator has not answered now.
  struct Outage {
    std::optional<Deadline> over;  // then it is given up; absent: there is none
    absl::Duration pause = absl::Milliseconds(100);
  };

  template <typename Request, typename Response>
  using Method = grpc::Status (Adjoin::Stub::*)(grpc::ClientContext*, const Request&, Response*);
  // Sets `repeated`, where given, to whether the call was made more than once.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(Method<Request, Response> method, Request request, std::chrono::seconds timeout,
                                bool* repeated = nullptr);
  template <typename Response>
  using Open = std::function<std::unique_ptr<grpc::ClientReader<Response>>(grpc::ClientContext*)>;
  // Reads all of a stream. After a break it is opened again while `again` returns true.
  template <typename Response>
  absl::Status Stream(const Open<Response>& open, std::chrono::seconds timeout, const std::function<bool()>& again,
                      const std::function<absl::Status(Response&)>& on_message);

  // A call that is made once, when the coordinator answers.
  template <typename Request, typename Response>
  absl::StatusOr<Response> CallOnce(Method<Request, Response> method, Request request);

  // Makes a channel, with a connection of its own.
  void OpenChannel(InterceptorFactories interceptors);
  // Does so where the server that the channel has is trusted no more.
  void LeaveDistrusted();

  // Waits until the coordinator may answer again; false where that took too long or the client was cancelled.
  bool TryAgain(Outage& outage);
  bool IsBreak(const grpc::Status& status);
  absl::Status Check(const grpc::Status& status);
  bool IsCancelled();

  const ClientOptions options_;
  Deadline::Clock::time_point opened_;  // when the channel was made
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Adjoin::Stub> stub_;
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::ClientContext* reading_ ABSL_GUARDED_BY(mutex_) = nullptr;  // the call that is made now
};

}  // namespace adjoin

#endif  // ADJOIN_CLI_COORDINATOR_CLIENT_H_
