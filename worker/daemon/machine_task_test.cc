#include "worker/daemon/machine_task.h"

#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<MachineTask> TaskWith(const std::map<std::string, std::string>& variables) {
  return MachineTaskOf([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

void ExpectTask(const std::map<std::string, std::string>& variables, int task, int tasks, bool launched = true) {
  const absl::StatusOr<MachineTask> found = TaskWith(variables);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->task, task);
  EXPECT_EQ(found->tasks, tasks);
  EXPECT_EQ(found->launched, launched);
}

TEST(MachineTaskTest, IsTheLaunchersOnThisMachine) {
  ExpectTask({}, 0, 1, /*launched=*/false);
  ExpectTask({{"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
              {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
              {"OMPI_COMM_WORLD_RANK", "6"},
              {"OMPI_COMM_WORLD_SIZE", "8"}},
             2, 4);
  ExpectTask({{"MV2_COMM_WORLD_LOCAL_RANK", "0"}, {"MV2_COMM_WORLD_LOCAL_SIZE", "1"}}, 0, 1);
  ExpectTask({{"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}, {"SLURM_LOCALID", "0"}}, 1, 2);
}

TEST(MachineTaskTest, IsThatOfItsNodeUnderSlurm) {
  const auto on = [](const std::string& node, const std::string& local) {
    return std::map<std::string, std::string>{
        {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1,3(x2)"}, {"SLURM_NODEID", node}, {"SLURM_LOCALID", local}};
  };
  ExpectTask(on("0", "1"), 1, 2);
  ExpectTask(on("2", "0"), 0, 2);
  ExpectTask(on("3", "0"), 0, 1);
  ExpectTask(on("5", "2"), 2, 3);
  // A batch script is no step.
  ExpectTask({{"SLURM_LOCALID", "0"}, {"SLURM_TASKS_PER_NODE", "4"}, {"SLURM_NODEID", "0"}}, 0, 1,
             /*launched=*/false);
}

TEST(MachineTaskTest, EachWorkerHasAFolderOfItsOwnWhereMachinesShareTheDisk) {
  std::set<std::string> folders;
  for (const std::string host : {"node-7", "node-8"}) {
    for (const int tasks : {1, 2}) {
      for (int i = 0; i < tasks; ++i) {
        folders.insert(StateDirOf({/*task=*/i, tasks, /*launched=*/true}, host, "home/state"));
      }
    }
  }
  EXPECT_THAT(folders, ElementsAre("home/state/node-7", "home/state/node-7-0", "home/state/node-7-1",
                                   "home/state/node-8", "home/state/node-8-0", "home/state/node-8-1"));
  EXPECT_EQ(StateDirOf(MachineTask(), "node-7", "home/state"), "home/state") << "without a launcher";
  EXPECT_EQ(WorkerNameOf({/*task=*/1, /*tasks=*/2, /*launched=*/true}, "node-7"), "node-7-1");
  EXPECT_EQ(WorkerNameOf({/*task=*/0, /*tasks=*/1, /*launched=*/true}, "node-7"), "node-7");
}

TEST(MachineTaskTest, RefusesWhatContradictsItself) {
  const auto refusal = [](const std::map<std::string, std::string>& variables) {
    const absl::StatusOr<MachineTask> found = TaskWith(variables);
    EXPECT_EQ(found.status().code(), absl::StatusCode::kFailedPrecondition);
    return std::string(found.status().message());
  };
  EXPECT_THAT(refusal({{"OMPI_COMM_WORLD_LOCAL_RANK", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}),
              HasSubstr("OMPI_COMM_WORLD_LOCAL_RANK is \"4\"; right would be a number from 0 to 3"));
  EXPECT_THAT(refusal({{"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "many"}}),
              HasSubstr("MPI_LOCALNRANKS is \"many\""));
  for (const std::string list :
       {"", "2(x", "2(x0)", "0", "2(x1)", "two", "-1(x9)", "99999999999(x9)", "2(xx9)", "2(x9"}) {
    EXPECT_THAT(refusal({{"SLURM_STEP_TASKS_PER_NODE", list}, {"SLURM_NODEID", "1"}, {"SLURM_LOCALID", "0"}}),
                HasSubstr("SLURM_STEP_TASKS_PER_NODE is \""))
        << list;
  }
  EXPECT_THAT(refusal({{"SLURM_STEP_TASKS_PER_NODE", "2"}, {"SLURM_LOCALID", "0"}}), HasSubstr("SLURM_NODEID is \"\""));
  EXPECT_THAT(refusal({{"SLURM_STEP_TASKS_PER_NODE", "2"}, {"SLURM_NODEID", "0"}, {"SLURM_LOCALID", "2"}}),
              HasSubstr("SLURM_LOCALID is \"2\"; right would be a number from 0 to 1"));
}

}  // namespace
}  // namespace adjoin
