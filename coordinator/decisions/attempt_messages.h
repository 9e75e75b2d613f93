// What the coordinator tells the daemons of an attempt, as messages without their header.
//
//   workers.Send("worker-0", job.attempt.epoch, StopMessage(job.id, "cancelled by a user"));
#ifndef ADJOIN_COORDINATOR_DECISIONS_ATTEMPT_MESSAGES_H_
#define ADJOIN_COORDINATOR_DECISIONS_ATTEMPT_MESSAGES_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "coordinator/decisions/job_record.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

// The worker shall start its ranks of the job's attempt. The plan is not in the message yet. `store_id`: of the store
// that epochs are counted in. `start_timeout`: for all ranks to be ready.
CoordinatorMessage StartMessage(const JobRecord& job, const std::string& worker, uint64_t store_id,
                                absl::Duration start_timeout);
// Its ranks shall connect to all others, whose addresses are in the message.
CoordinatorMessage ConnectMessage(const JobRecord& job);
// It shall end its ranks.
CoordinatorMessage StopMessage(const std::string& job_id, const std::string& reason);
// Its report that no process of the attempt is left has arrived.
CoordinatorMessage AckMessage(const std::string& job_id);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_ATTEMPT_MESSAGES_H_
