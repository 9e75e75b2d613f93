// A cluster that is attacked, and what has to hold of it afterwards.
//
//   AttackedCluster attacked(*cluster, ReadFile(Runfile("examples/mnist/lenet5-spatial.textproto")), "lenet5-spatial");
//   ASSERT_EQ(attacked.Begin(), absl::OkStatus());        // before the attack
//   ... attack ...
//   EXPECT_EQ(attacked.Check(), absl::OkStatus());        // after each one
//   EXPECT_EQ(attacked.CheckBits(), absl::OkStatus());    // at the end
//
// One thread.
#ifndef ADJOIN_TESTS_ATTACK_ATTACKED_CLUSTER_H_
#define ADJOIN_TESTS_ATTACK_ATTACKED_CLUSTER_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {

// What a program's process uses.
struct ProcessUse {
  pid_t process = 0;
  int64_t memory_bytes = 0;  // resident
  int descriptors = 0;
  int threads = 0;
};
ProcessUse UseOf(pid_t pid);

// The coordinator and the daemons of a cluster, by the names of their programs and themselves.
std::map<std::string, ProcessUse> UseOfPrograms(const LocalCluster& cluster);

struct AttackLimits {
  double list_seconds = 1;           // for one answer to ListJobs
  int64_t memory_bytes = 256 << 20;  // more than before the attack, of each program
  int descriptors = 100;             // likewise
  int threads = 100;                 // likewise
  double settle_seconds = 30;        // in which the figures have to come down
};

class AttackedCluster {
 public:
  // `spec`: a job that writes model.safetensors into `output_dir`.
  AttackedCluster(LocalCluster& cluster, std::string spec, std::string output_dir, AttackLimits limits = {})
      : cluster_(cluster), spec_(std::move(spec)), output_dir_(std::move(output_dir)), limits_(limits) {}

  // Trains the job, and keeps the bits of its model and what the programs use.
  absl::Status Begin();
  // Errors, with what does not hold: no daemon is out, jobs are listed in time, the programs are the same processes and
  // use what they used.
  absl::Status Check();
  // As Check; and the job trains to the same bits.
  absl::Status CheckBits();

 private:
  absl::StatusOr<std::string> Train();
  absl::Status CheckListing();
  absl::Status CheckUse();

  LocalCluster& cluster_;
  const std::string spec_, output_dir_;
  const AttackLimits limits_;
  std::string model_;
  std::map<std::string, ProcessUse> before_;
};

}  // namespace adjoin

#endif  // ADJOIN_TESTS_ATTACK_ATTACKED_CLUSTER_H_
