#include "proto/fit_message.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "proto/testing/largest_message.h"

namespace adjoin {
namespace {

using google::protobuf::FieldDescriptor;

// Every kind of message, also one that is added later, fits when it is as large as can be.
TEST(FitMessageTest, TheLargestOfEachKindFromADaemonFits) {
  for (const FieldDescriptor* kind : KindsOf(WorkerMessage::descriptor())) {
    WorkerMessage message;
    FillLargest(&message, kind);
    ASSERT_TRUE(WorkerMessage::GetReflection()->HasField(message, kind)) << kind->name();
    Fit(&message);
    EXPECT_LE(message.ByteSizeLong(), kMaxSentBytes) << kind->name();
    EXPECT_EQ(UnprintableField(message), "") << kind->name();
    EXPECT_TRUE(WorkerMessage().ParseFromString(message.SerializeAsString())) << kind->name();
  }
}

TEST(FitMessageTest, TheLargestOfEachKindFromARankFits) {
  for (const FieldDescriptor* kind : KindsOf(RankMessage::descriptor())) {
    RankMessage message;
    FillLargest(&message, kind);
    Fit(&message);
    EXPECT_LE(message.ByteSizeLong(), kMaxSentBytes) << kind->name();
    EXPECT_EQ(UnprintableField(message), "") << kind->name();
    EXPECT_TRUE(RankMessage().ParseFromString(message.SerializeAsString())) << kind->name();
  }
}

// But for the paths in a job's spec, which say what to open; the planner has refused those that are not printable.
TEST(FitMessageTest, TheLargestOfEachKindToADaemonFits) {
  LargestSizes sizes;
  sizes.texts = 500;
  sizes.messages = 2;
  for (const FieldDescriptor* kind : KindsOf(CoordinatorMessage::descriptor())) {
    CoordinatorMessage message;
    FillLargest(&message, kind, sizes);
    message.mutable_probe_data()->clear_dataset();
    message.mutable_probe_data()->clear_job();
    message.mutable_probe_data()->mutable_model()->clear_weights();
    Fit(&message);
    EXPECT_LE(message.ByteSizeLong(), kMaxOrderBytes) << kind->name();
    EXPECT_EQ(UnprintableField(message), "") << kind->name();
  }
}

TEST(FitMessageTest, ADescriptionOfAHugeJobFits) {
  DescribeJobResponse described;
  for (int i = 0; i < DescribeJobResponse::descriptor()->field_count(); ++i) {
    LargestSizes sizes;
    sizes.messages = 300;
    sizes.texts = 20000;
    const FieldDescriptor* field = DescribeJobResponse::descriptor()->field(i);
    if (field->name() == "rank" || field->name() == "artifact" || field->name() == "job") {
      sizes.text = 5000;
      sizes.entries = 100;
      FillLargest(&described, field, sizes);
    }
  }
  described.set_artifacts_left_out(7);
  Fit(&described);
  EXPECT_LE(described.ByteSizeLong(), kMaxSentBytes);
  EXPECT_EQ(UnprintableField(described), "");
  EXPECT_EQ(described.rank_size(), 300);
  EXPECT_EQ(described.artifact_size() + described.artifacts_left_out(), 20007);
}

TEST(FitMessageTest, RanksThatFitNoDescriptionAreCounted) {
  DescribeJobResponse described;
  for (uint32_t rank = 0; rank < 100000; ++rank) {
    described.add_rank()->set_rank(rank);
    described.mutable_rank(static_cast<int>(rank))->set_worker(std::string(250, 'w'));
  }
  Fit(&described);
  EXPECT_LE(described.ByteSizeLong(), kMaxSentBytes);
  const int kept = described.rank_size() - 1;
  EXPECT_GT(kept, 1000);
  EXPECT_EQ(described.rank(kept).worker(), absl::StrCat("(", 100000 - kept, " more ranks, left out)"));
}

TEST(FitMessageTest, NamesOfFilesAreCountedWhereTheyAreLeftOut) {
  WorkerMessage message;
  RankEnded& ended = *message.mutable_rank_ended();
  for (int i = 0; i < 75000; ++i) ended.add_artifact(absl::StrCat("prediction-", i));
  Fit(&message);
  EXPECT_EQ(ended.artifact_size(), static_cast<int>(kMaxArtifacts));
  EXPECT_EQ(ended.artifacts_left_out(), 75000 - kMaxArtifacts);
  EXPECT_EQ(ended.artifact(9999), "prediction-9999");
  Fit(&message);  // the coordinator fits what came, again
  EXPECT_EQ(ended.artifacts_left_out(), 75000 - kMaxArtifacts);

  ended.clear_artifact();
  ended.clear_artifacts_left_out();
  for (int i = 0; i < 2000; ++i) ended.add_artifact(std::string(1000, 'a'));
  Fit(&message);
  EXPECT_EQ(ended.artifact_size(), static_cast<int>(kMaxArtifactBytes / 1000));
  EXPECT_EQ(ended.artifacts_left_out(), 2000 - kMaxArtifactBytes / 1000);
}

TEST(FitMessageTest, LayersAreCountedWhereTheyAreLeftOut) {
  WorkerMessage message;
  LayerTimes& times = *message.mutable_rank_update()->mutable_progress()->mutable_layer_times();
  for (int i = 0; i < 1000; ++i) times.add_layer()->set_name(std::string(1000, 'a'));
  times.set_left_out(5);
  for (int i = 0; i < 1000; ++i) times.add_slow()->set_layer(std::string(1000, 'a'));
  Fit(&message);
  EXPECT_EQ(times.slow_size(), kMaxShownLayers);
  EXPECT_LE(times.slow(0).layer().size(), kMaxNameBytes);
  EXPECT_EQ(times.layer_size(), kMaxShownLayers);
  EXPECT_EQ(times.left_out(), 1000 - kMaxShownLayers + 5);
  EXPECT_LE(times.layer(0).name().size(), kMaxNameBytes);
}

TEST(FitMessageTest, MetricsAreCountedWhereTheyAreLeftOut) {
  RankMessage message;
  auto& metrics = *message.mutable_progress()->mutable_metric();
  for (int i = 0; i < 100000; ++i) metrics[absl::StrCat("dice[", i, "]")] = i;
  Fit(&message);
  EXPECT_LT(metrics.size(), 5000u);
  EXPECT_EQ(metrics.at("metrics left out"), 100000 - (static_cast<double>(metrics.size()) - 1));
  Fit(&message);
  EXPECT_GT(metrics.at("metrics left out"), 90000);
}

TEST(FitMessageTest, AHelloKeepsWhatDecides) {
  WorkerMessage message;
  for (int a = 0; a < 30; ++a) {
    AttemptReport& attempt = *message.mutable_hello()->add_attempt();
    attempt.set_job_id(absl::StrCat("job-", a));
    attempt.set_epoch(static_cast<uint64_t>(a) + 1);
    for (uint32_t r = 0; r < 30; ++r) {
      RankReport& rank = *attempt.add_rank();
      rank.set_rank(r);
      rank.set_connected(a > 0);
      rank.set_transport_address(std::string(8000, 'a'));
      rank.set_transport(std::string(60000, 't'));
      rank.mutable_progress()->set_checkpoint_step(40 + r);
      for (int m = 0; m < 1000; ++m) (*rank.mutable_progress()->mutable_metric())[absl::StrCat("metric-", m)] = m;
      if (a % 2 == 0) continue;
      rank.mutable_ended()->set_end(RANK_SUCCEEDED);
      for (int f = 0; f < 1000; ++f) rank.mutable_ended()->add_artifact(absl::StrCat("file-", f));
    }
  }
  EXPECT_GT(message.ByteSizeLong(), kMaxMessageBytes);
  EXPECT_EQ(Fit(&message), "the ranks' lanes, their metrics");
  EXPECT_LE(message.ByteSizeLong(), kMaxSentBytes);
  WorkerMessage small = message;
  EXPECT_NE(Fit(&small, message.ByteSizeLong() / 8), "");  // after a refusal the next hello is smaller
  EXPECT_LE(small.ByteSizeLong(), message.ByteSizeLong() / 8);
  ASSERT_EQ(small.hello().attempt_size(), 30);
  for (const AttemptReport& attempt : small.hello().attempt()) {
    ASSERT_EQ(attempt.rank_size(), 30);
    for (const RankReport& rank : attempt.rank()) {
      EXPECT_EQ(rank.progress().checkpoint_step(), 40 + rank.rank());
      EXPECT_EQ(rank.transport_address().empty(), rank.connected());
      EXPECT_EQ(rank.ended().end() == RANK_SUCCEEDED, attempt.epoch() % 2 == 0);
      EXPECT_EQ(rank.ended().artifacts_left_out(), attempt.epoch() % 2 == 0 ? 1000u : 0u);
    }
  }
}

}  // namespace
}  // namespace adjoin
