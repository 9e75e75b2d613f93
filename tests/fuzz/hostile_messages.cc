#include "tests/fuzz/hostile_messages.h"

#include "absl/strings/str_cat.h"
#include "proto/protocol.h"
#include "tests/fuzz/message_mutator.h"

namespace adjoin {

void HostileMessages::Change(google::protobuf::Message& message) {
  for (uint32_t times = Below(5); times > 0; --times) MutateMessage(message, random_);
}

AttemptReport HostileMessages::Report(const std::string& job, std::optional<uint64_t> epoch, uint64_t store_id) {
  AttemptReport report;
  report.set_job_id(job);
  report.set_epoch(epoch.has_value() ? *epoch + Below(3) - Below(2) : Below(100));
  report.set_store_id(Below(4) == 0 ? random_() : store_id);
  report.set_cleared(Below(2) == 0);
  RankReport& rank = *report.add_rank();
  rank.set_rank(Below(4));
  rank.set_transport_address("elsewhere");
  if (Below(2) == 0) rank.mutable_ended()->set_end(RANK_SUCCEEDED);
  return report;
}

WorkerHello HostileMessages::Hello(const std::vector<AttemptReport>& reports) {
  WorkerHello hello;
  hello.set_slots(1 + Below(4));
  hello.set_incarnation(Below(5));
  hello.set_node_id(name_);
  hello.set_draining(true);
  if (Below(2) == 0) hello.add_gpu()->set_uuid(absl::StrCat("GPU-of-", name_));
  for (const AttemptReport& report : reports) *hello.add_attempt() = report;
  Change(hello);
  hello.set_name(name_);
  return hello;
}

WorkerMessage HostileMessages::Said(const AttemptReport& report) {
  WorkerMessage message;
  const uint32_t rank = report.rank(0).rank();
  switch (Below(7)) {
    case 0: {
      AttemptPulse& pulse = *message.mutable_heartbeat()->add_attempt();
      pulse.set_job_id(report.job_id());
      pulse.set_epoch(report.epoch());
      pulse.add_rank()->set_rank(rank);
      message.mutable_heartbeat()->set_draining(Below(4) != 0);
      break;
    }
    case 1:
      message.mutable_rank_ready()->set_job_id(report.job_id());
      message.mutable_rank_ready()->set_rank(rank);
      message.mutable_rank_ready()->set_transport_address("elsewhere");
      break;
    case 2:
      message.mutable_rank_update()->set_job_id(report.job_id());
      message.mutable_rank_update()->set_rank(rank);
      message.mutable_rank_update()->mutable_progress()->set_step(random_());
      break;
    case 3:
    case 4:
      message.mutable_rank_ended()->set_job_id(report.job_id());
      message.mutable_rank_ended()->set_rank(rank);
      message.mutable_rank_ended()->set_end(static_cast<RankEnd>(Below(RankEnd_MAX + 1)));
      message.mutable_rank_ended()->set_node_fault(Below(2) == 0);
      message.mutable_rank_ended()->set_files_fault(Below(2) == 0);
      break;
    case 5: message.mutable_attempt_cleared()->set_job_id(report.job_id()); break;
    default:
      message.mutable_probe_result()->set_request_id(report.job_id());
      message.mutable_probe_result()->set_error("made up");
      break;
  }
  *message.mutable_header() = MakeHeader(report.epoch());
  Change(message);
  return message;
}

}  // namespace adjoin
