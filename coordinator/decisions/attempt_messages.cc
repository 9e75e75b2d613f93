#include "coordinator/decisions/attempt_messages.h"

namespace adjoin {
namespace {

// Below the whole time, so that the daemon tells which file system does not answer before the attempt ends without it.
constexpr double kPartForPaths = 0.75;

}  // namespace

CoordinatorMessage StartMessage(const JobRecord& job, const std::string& worker, uint64_t store_id,
                                absl::Duration start_timeout) {
  CoordinatorMessage message;
  StartRanks& start = *message.mutable_start_ranks();
  start.set_job_id(job.id);
  for (size_t r = 0; r < job.attempt.ranks.size(); ++r) {
    if (job.attempt.ranks[r].worker == worker) start.add_rank(r);
  }
  start.set_world_size(job.attempt.ranks.size());
  start.set_plan_hash(job.plan_hash);
  start.set_single_node(job.attempt.holders.size() == 1);
  start.set_memory_bytes(job.spec.resources().memory_bytes());
  start.set_store_id(store_id);
  start.set_owner(job.owner);
  start.set_any_folder(job.any_folder);
  start.set_job_tag(job.tag);
  start.set_gpus(job.spec.resources().gpus());
  start.set_prepare_seconds(absl::ToDoubleSeconds(start_timeout * kPartForPaths));
  return message;
}

CoordinatorMessage ConnectMessage(const JobRecord& job) {
  CoordinatorMessage message;
  ConnectRanks& connect = *message.mutable_connect_ranks();
  connect.set_job_id(job.id);
  for (const RankRecord& rank : job.attempt.ranks) connect.add_transport_address(rank.transport_address);
  return message;
}

CoordinatorMessage StopMessage(const std::string& job_id, const std::string& reason) {
  CoordinatorMessage message;
  message.mutable_stop_attempt()->set_job_id(job_id);
  message.mutable_stop_attempt()->set_reason(reason);
  return message;
}

CoordinatorMessage AckMessage(const std::string& job_id) {
  CoordinatorMessage message;
  message.mutable_attempt_ack()->set_job_id(job_id);
  return message;
}

}  // namespace adjoin
