// The Python package with a coordinator, a worker and the command: python/tests/cluster_check.py says what holds.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/time/time.h"
#include "base/deadline.h"
#include "tests/harness/child_process.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

TEST(PythonPackage, SubmitsFollowsMeasuresAndLoadsWhatWasTrained) {
  auto cluster = LocalCluster::Start(1, 4);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const std::string folder = (*cluster)->folder() + "/python";
  std::filesystem::create_directories(folder);
  auto python =
      ChildProgram::Start({"/usr/bin/python3", Runfile("python/tests/cluster_check.py"), Runfile("cli/adjoin"),
                           (*cluster)->address(), (*cluster)->data_root() + "/mnist", folder},
                          {}, folder + "/check");
  ASSERT_TRUE(python.ok()) << python.status();
  const absl::StatusOr<int> code = (*python)->Wait(Deadline::After(absl::Seconds(270)));
  ASSERT_TRUE(code.ok()) << code.status() << (*python)->Errors();
  EXPECT_EQ(*code, 0) << (*python)->Errors();
  EXPECT_EQ((*cluster)->Stop(), absl::OkStatus());
}

}  // namespace
}  // namespace adjoin
