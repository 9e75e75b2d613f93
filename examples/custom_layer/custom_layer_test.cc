// The example's programs: what the page says of them happens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "tests/harness/child_process.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kFolder[] = "examples/custom_layer/";

std::string JobFile() { return Runfile(absl::StrCat(kFolder, "sharpened.textproto")); }

struct Ended {
  int code = -1;
  std::string out, err;
};

Ended RunAdjoin(std::vector<std::string> arguments) {
  static int number = 0;
  arguments.insert(arguments.begin(), Runfile(absl::StrCat(kFolder, "adjoin")));
  auto child = ChildProgram::Start(arguments, {}, absl::StrCat(std::getenv("TEST_TMPDIR"), "/adjoin-", ++number));
  if (!child.ok()) return {-1, "", std::string(child.status().message())};
  const auto code = (*child)->Wait(Deadline::After(absl::Seconds(120)));
  return {code.value_or(-1), (*child)->Output(), (*child)->Errors()};
}

TEST(CustomLayerTest, IsPlanned) {
  const Ended plan = RunAdjoin({"plan", JobFile()});
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.out, AllOf(HasSubstr("sharpen1.x"), HasSubstr("sharpen2.amount")));
}

TEST(CustomLayerTest, EqualsItsSerialFunction) {
  const Ended verify = RunAdjoin({"verify", "--ranks", "1,2,4,6", "--steps", "2", JobFile()});
  EXPECT_EQ(verify.code, 0) << verify.out << verify.err;
  EXPECT_THAT(verify.out, AllOf(HasSubstr("sharpen1"), Not(HasSubstr("serial function"))));
}

TEST(CustomLayerTest, TrainsOnACluster) {
  LocalClusterOptions options;
  options.coordinator_binary = absl::StrCat(kFolder, "adjoin-coordinator");
  options.rank_binary = absl::StrCat(kFolder, "adjoin-rank");
  auto cluster = LocalCluster::Start(2, 2, options);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const auto job = (*cluster)->Submit(ReadFile(JobFile()));
  ASSERT_TRUE(job.ok()) << job.status();
  const auto end = (*cluster)->WaitFor(*job, Deadline::After(absl::Seconds(120)));
  ASSERT_TRUE(end.ok()) << end.status();
  ASSERT_EQ(end->state(), SUCCEEDED) << end->reason();
  const std::string metrics = ReadFile((*cluster)->output_root() + "/sharpened/metrics.jsonl");
  EXPECT_THAT(metrics, AllOf(HasSubstr("\"step\": 20,"), Not(HasSubstr("\"step\": 21,"))));
  const std::string model = ReadFile((*cluster)->output_root() + "/sharpened/model.safetensors");
  EXPECT_THAT(model.substr(0, 4096), AllOf(HasSubstr("\"sharpen1.amount\""), HasSubstr("\"sharpen2.amount\"")));
  const absl::Status stopped = (*cluster)->Stop();
  EXPECT_TRUE(stopped.ok()) << stopped;
}

}  // namespace
}  // namespace adjoin
