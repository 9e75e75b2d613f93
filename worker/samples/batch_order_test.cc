#include "worker/samples/batch_order.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace adjoin {
namespace {

// "train 0 4": the batches that follow `key`, as many as `count`.
std::vector<std::string> Follow(const BatchOrder& order, std::optional<BatchKey> key, int count) {
  std::vector<std::string> batches;
  for (int i = 0; i < count && key.has_value(); ++i) {
    batches.push_back(key->program + " " + std::to_string(key->epoch) + " " + std::to_string(key->first));
    key = order.After(*key);
  }
  return batches;
}

TEST(BatchOrderTest, TheNextEpochFollowsInTraining) {
  BatchOrder order(11, 11);
  order.Add("train", true, 4);
  order.Add("train_tail", true, 3);
  EXPECT_EQ(Follow(order, BatchKey{"train", 0, 0}, 5),
            (std::vector<std::string>{"train 0 0", "train 0 4", "train_tail 0 8", "train 1 0", "train 1 4"}));
}

TEST(BatchOrderTest, SamplesThatAreDroppedAreNotRead) {
  BatchOrder order(11, 8);
  order.Add("train", true, 2);  // in parts of a batch of 4
  EXPECT_EQ(Follow(order, BatchKey{"train", 2, 4}, 3),
            (std::vector<std::string>{"train 2 4", "train 2 6", "train 3 0"}));
}

TEST(BatchOrderTest, MicroBatchesFollowEachOther) {
  BatchOrder order(11, 11);
  order.Add("train", true, 2);
  order.Add("train_tail", true, 1);
  EXPECT_EQ(Follow(order, BatchKey{"train", 0, 6}, 4),
            (std::vector<std::string>{"train 0 6", "train 0 8", "train_tail 0 10", "train 1 0"}));
}

TEST(BatchOrderTest, ASetSmallerThanABatchIsAllTail) {
  BatchOrder order(3, 3);
  order.Add("train", true, 4);
  order.Add("train_tail", true, 3);
  EXPECT_EQ(Follow(order, BatchKey{"train_tail", 0, 0}, 2),
            (std::vector<std::string>{"train_tail 0 0", "train_tail 1 0"}));
}

TEST(BatchOrderTest, OutsideTrainingNothingFollowsTheLastBatch) {
  BatchOrder order(11, 8);
  order.Add("evaluate", false, 4);
  order.Add("evaluate_tail", false, 3);
  order.Add("predict", false, 11);
  EXPECT_EQ(Follow(order, BatchKey{"evaluate", 0, 0}, 9),
            (std::vector<std::string>{"evaluate 0 0", "evaluate 0 4", "evaluate_tail 0 8"}));
  EXPECT_EQ(Follow(order, BatchKey{"predict", 0, 0}, 9), (std::vector<std::string>{"predict 0 0"}));
}

}  // namespace
}  // namespace adjoin
