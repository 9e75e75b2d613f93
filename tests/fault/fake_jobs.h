// Jobs for the ranks of worker/testing/fake_rank.cc, and what those ranks wrote of their runs.
//
//   cluster.Submit(FakeJob("steps-200x10ms-kill-1-at-50-once", /*ranks=*/2, "restart { max_restarts: 1 }"));
//   EXPECT_THAT(TwiceAtOnce(cluster.output_root()), IsEmpty());
#ifndef ADJOIN_TESTS_FAULT_FAKE_JOBS_H_
#define ADJOIN_TESTS_FAULT_FAKE_JOBS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace adjoin {

// `more` is put into the spec.
std::string FakeJob(const std::string& name, int ranks, const std::string& more = "");

// Flags of a coordinator that finds everything within seconds: silence, leases, daemons that do not come back. A daemon
// that is silent for `dead_after_seconds` is lost: on a busy machine one that lives may be silent for two.
std::vector<std::string> ImpatientCoordinator(int dead_after_seconds = 2);

// The epochs of which ranks ran, by job.
std::map<std::string, std::set<uint64_t>> AttemptsThatRan(const std::string& output_root);

// Where a rank of one attempt started while a process of another attempt of the same job was alive: a line each.
std::vector<std::string> TwiceAtOnce(const std::string& output_root);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_FAULT_FAKE_JOBS_H_
