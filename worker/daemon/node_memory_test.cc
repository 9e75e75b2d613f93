#include "worker/daemon/node_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

class NodeMemoryTest : public ::testing::Test {
 protected:
  // A file of the control groups' folder.
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = absl::StrCat(root_, "/", path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  std::string root_ = absl::StrCat(::testing::TempDir(), "/cgroups-", getpid(), "-",
                                   ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(NodeMemoryTest, TheLeastOfTheGroupsAroundTheProcessCounts) {
  Write("memory.max", "9000000000");
  Write("jobs/memory.max", "5000000000");
  Write("jobs/adjoin/memory.max", "7000000000");
  Write("elsewhere/memory.max", "1000");
  EXPECT_EQ(CgroupMemoryLimit("0::/jobs/adjoin\n", root_), 5000000000);
  EXPECT_EQ(CgroupMemoryLimit("0::/\n", root_), 9000000000);
  Write("free/memory.max", "max");
  EXPECT_EQ(CgroupMemoryLimit("0::/free\n", root_), 9000000000) << "the group around it";
}

TEST_F(NodeMemoryTest, GroupsOfTheFirstVersionCount) {
  Write("memory/slurm/job_7/memory.limit_in_bytes", "3000000000");
  Write("memory/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(CgroupMemoryLimit("11:cpu,cpuacct:/slurm/job_8\n9:memory:/slurm/job_7\n0::/\n", root_), 3000000000);
}

TEST_F(NodeMemoryTest, WhatCannotBeReadLimitsNothing) {
  EXPECT_EQ(CgroupMemoryLimit("", root_), 0);
  EXPECT_EQ(CgroupMemoryLimit("0::/not/there\n", root_), 0);
  EXPECT_EQ(CgroupMemoryLimit("nonsense\n1:2\n", root_), 0);
  Write("x/memory.max", "12 bytes");
  EXPECT_EQ(CgroupMemoryLimit("0::/x\n", root_), 0);
}

TEST_F(NodeMemoryTest, ThisMachineHasSome) {
  const uint64_t pages = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  EXPECT_GT(MemoryForRanks(), 0);
  EXPECT_LT(MemoryForRanks(), pages);
}

}  // namespace
}  // namespace adjoin
