#include "worker/tensorboard/event_log.h"

#include <stdio.h>

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Json = nlohmann::json;

// As a reader in Python, written from the format's documentation, reads the file.
std::vector<Json> Read(const std::string& path) {
  FILE* reader = popen(absl::StrCat("python3 worker/tensorboard/read_events.py '", path, "'").c_str(), "r");
  std::string text;
  char buffer[4096];
  for (size_t got = 0; (got = fread(buffer, 1, sizeof(buffer), reader)) > 0;) text.append(buffer, got);
  EXPECT_EQ(pclose(reader), 0) << "no event file: " << path;
  std::vector<Json> events;
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; begin = end + 1, end = text.find('\n', begin)) {
    events.push_back(Json::parse(text.substr(begin, end - begin)));
  }
  return events;
}

std::string Step(int step, double loss) {
  return absl::StrCat("{\"type\": \"step\", \"step\": ", step, ", \"epoch\": 1, \"loss\": ", loss,
                      ", \"lr\": 0.5, \"samples\": 8, \"t_comp\": 1.5, \"t_sync\": 0.5, \"bytes_sent\": 7}\n");
}

class EventLogTest : public ::testing::Test {
 protected:
  std::unique_ptr<EventLog> Log(const std::string& name) {
    path_ = absl::StrCat(testing::TempDir(), "/", name, ".tfevents.x");
    auto log = EventLog::Create(path_, [this] { return now_; });
    EXPECT_TRUE(log.ok()) << log.status();
    return *std::move(log);
  }
  double now_ = 1000;
  std::string path_;
};

TEST_F(EventLogTest, AnotherReaderFindsEveryScalarAtOnce) {
  const auto log = Log("scalars");
  ASSERT_TRUE(log->Add("{\"type\": \"plan\", \"rank\": 1, \"tensor_bytes\": 1024, \"during\": \"x\"}\n").ok());
  now_ = 1002.25;
  ASSERT_TRUE(log->Add(Step(1, 2.5)).ok());
  ASSERT_TRUE(log->Add("{\"type\": \"step\", \"step\": 2, \"loss\": null, \"lr\": 0.5}\n").ok());
  ASSERT_TRUE(log->Add("{\"type\": \"validation\", \"step\": 2, \"epoch\": 1, \"dataset\": \"t\", \"samples\": 3, "
                       "\"loss\": 1, \"dice\": 0.5, \"dice_per_class\": [0.25, null, 0], \"confusion\": [[1, 2]]}\n")
                  .ok());
  ASSERT_TRUE(log->Add("{\"type\": \"memory\", \"step\": 2, \"rank\": 0, \"peak_tensor_bytes\": 2048, "
                       "\"step_seconds\": 1}\n{\"type\": \"layers\", \"step\": 2}\nno JSON\n")
                  .ok());
  ASSERT_TRUE(log->Add("{\"type\": \"evaluation\", \"dataset\": \"t\", \"loss\": 4}\n{\"type\": \"summ").ok());
  const std::vector<Json> events = Read(path_);
  ASSERT_THAT(events, SizeIs(7));
  EXPECT_EQ(events[0], Json::parse("{\"wall_time\": 1000.0, \"step\": 0, \"file_version\": \"brain.Event:2\"}"));
  EXPECT_EQ(events[1]["values"], Json::parse("{\"predicted/tensor_bytes\": 1024.0}"));
  EXPECT_EQ(events[2]["wall_time"], 1002.25);
  EXPECT_EQ(events[2]["step"], 1);
  EXPECT_EQ(events[2]["values"],
            Json::parse("{\"train/loss\": 2.5, \"train/lr\": 0.5, \"speed/steps_per_second\": 0.5, "
                        "\"speed/samples_per_second\": 4.0, \"speed/t_comp\": 1.5, \"speed/t_sync\": 0.5}"));
  EXPECT_EQ(events[3]["values"], Json::parse("{\"train/loss\": null, \"train/lr\": 0.5}")) << "NaN";
  EXPECT_EQ(events[4]["values"], Json::parse("{\"validation/loss\": 1.0, \"validation/dice\": 0.5, "
                                             "\"validation/dice_per_class/0\": 0.25, "
                                             "\"validation/dice_per_class/1\": null, "
                                             "\"validation/dice_per_class/2\": 0.0}"));
  EXPECT_EQ(events[5]["values"], Json::parse("{\"memory/peak_tensor_bytes\": 2048.0}"));
  EXPECT_EQ(events[6]["step"], 2) << "an evaluation comes after the last step";
  EXPECT_EQ(events[6]["values"], Json::parse("{\"evaluation/loss\": 4.0}"));
}

TEST_F(EventLogTest, AnAttemptThatGoesOnHasEveryStepOnceWithTimesBeforeIt) {
  const std::string kept = absl::StrCat(Step(1, 3), Step(2, 2), Step(3, 1));
  StepSeconds past;
  for (const char byte : kept) past.Add(std::string(1, byte));
  EXPECT_EQ(past.seconds(), 6);
  now_ = 5000;
  const auto log = Log("resumed");
  log->BeginPast(past.seconds());
  for (const char byte : kept) ASSERT_TRUE(log->Add(std::string(1, byte)).ok());
  log->EndPast();
  now_ = 5010;
  ASSERT_TRUE(log->Add(Step(4, 0.5)).ok());
  std::vector<int> steps;
  std::vector<double> times;
  for (const Json& event : Read(path_)) {
    if (!event.contains("values")) continue;
    steps.push_back(event["step"]);
    times.push_back(event["wall_time"]);
  }
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(times, ElementsAre(DoubleNear(4996, 1e-6), DoubleNear(4998, 1e-6), DoubleNear(5000, 1e-6), 5010));
}

TEST_F(EventLogTest, AFileThatWasRemovedIsMadeAgainWithAllEvents) {
  const auto log = Log("removed");
  ASSERT_TRUE(log->Add(Step(1, 3)).ok());
  ASSERT_EQ(remove(path_.c_str()), 0);
  ASSERT_TRUE(log->RestoreAt(path_).ok());
  ASSERT_TRUE(log->Add(Step(2, 2)).ok());
  ASSERT_TRUE(log->Sync().ok());
  EXPECT_THAT(Read(path_), SizeIs(3));
}

}  // namespace
}  // namespace adjoin
