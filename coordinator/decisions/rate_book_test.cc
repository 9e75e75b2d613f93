#include "coordinator/decisions/rate_book.h"

#include <limits>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

RateTable Table(const std::string& machine) {
  RateTable rates;
  rates.set_machine(machine);
  KernelRate& kernel = *rates.add_kernel();
  kernel.set_kind("copy");
  kernel.set_dtype("float32");
  kernel.add_size(1000);
  kernel.set_bytes(8000);
  kernel.set_forward_seconds(1e-6);
  return rates;
}

TEST(RateBookTest, NodesOfOneKindHaveTheirTableOnce) {
  RateBook book;
  ASSERT_TRUE(book.Set("a", Table("fast")).ok());
  ASSERT_TRUE(book.Set("b", Table("slow")).ok());
  ASSERT_TRUE(book.Set("c", Table("slow")).ok());
  const ReadRatesResponse all = book.All();
  ASSERT_EQ(all.node_size(), 2);
  EXPECT_THAT(all.node(0).worker(), ElementsAre("b", "c"));
  EXPECT_EQ(all.node(0).rates().machine(), "slow");
  EXPECT_THAT(all.node(1).worker(), ElementsAre("a"));
}

TEST(RateBookTest, PredictsByTheKindThatMostNodesAreOf) {
  RateBook book;
  EXPECT_EQ(book.OfMost(), nullptr);
  ASSERT_TRUE(book.Set("a", Table("fast")).ok());
  EXPECT_EQ(book.OfMost()->machine(), "fast");
  ASSERT_TRUE(book.Set("b", Table("slow")).ok());
  ASSERT_TRUE(book.Set("c", Table("slow")).ok());
  const std::shared_ptr<const RateTable> most = book.OfMost();
  EXPECT_EQ(most->machine(), "slow");
  book.KeepOnly([](const std::string& worker) { return worker == "a"; });
  EXPECT_EQ(book.OfMost()->machine(), "fast");
  EXPECT_EQ(most->machine(), "slow") << "a copy";
}

TEST(RateBookTest, ALaterTableTakesThePlaceOfTheEarlier) {
  RateBook book;
  ASSERT_TRUE(book.Set("a", Table("fast")).ok());
  ASSERT_TRUE(book.Set("a", Table("faster")).ok());
  ASSERT_EQ(book.All().node_size(), 1);
  EXPECT_EQ(book.All().node(0).rates().machine(), "faster");
  book.Forget("a");
  EXPECT_EQ(book.All().node_size(), 0);
}

TEST(RateBookTest, RefusesATableOfNoUse) {
  RateBook book;
  ASSERT_TRUE(book.Set("a", Table("fast")).ok());
  RateTable bad = Table("x");
  bad.mutable_kernel(0)->set_forward_seconds(std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT(std::string(book.Set("a", bad).message()), HasSubstr("kernel[0].forward_seconds"));
  EXPECT_EQ(book.All().node_size(), 0);
}

TEST(RateBookTest, ForgetsWorkersThatAreGone) {
  RateBook book;
  for (const char* worker : {"a", "b"}) ASSERT_TRUE(book.Set(worker, Table("fast")).ok());
  ASSERT_TRUE(book.Set("c", Table("slow")).ok());
  book.KeepOnly([](const std::string& worker) { return worker == "b"; });
  const ReadRatesResponse all = book.All();
  ASSERT_EQ(all.node_size(), 1);
  EXPECT_THAT(all.node(0).worker(), ElementsAre("b"));
}

TEST(RateBookTest, TellsAsManyTablesAsAMessageHolds) {
  RateBook book;
  for (size_t i = 0; i < RateBook::kMostKinds; ++i) {
    RateTable rates = Table(absl::StrCat("kind ", i));
    const KernelRate kernel = rates.kernel(0);
    for (int k = 1; k < 4000; ++k) *rates.add_kernel() = kernel;
    for (int k = 0; k < rates.kernel_size(); ++k) rates.mutable_kernel(k)->add_size(k + 1);
    ASSERT_TRUE(book.Set(absl::StrCat("w", i), rates).ok());
  }
  const ReadRatesResponse all = book.All();
  EXPECT_GT(all.node_size(), 1);
  EXPECT_LT(all.node_size(), static_cast<int>(RateBook::kMostKinds));
  EXPECT_LE(all.ByteSizeLong(), kMaxSentBytes / 2);
}

TEST(RateBookTest, KeepsSoManyKinds) {
  RateBook book;
  for (size_t i = 0; i < RateBook::kMostKinds; ++i) {
    ASSERT_TRUE(book.Set(absl::StrCat("w", i), Table(absl::StrCat("kind ", i))).ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(book.Set("more", Table("another"))));
  EXPECT_TRUE(book.Set("more", Table("kind 3")).ok());
}

}  // namespace
}  // namespace adjoin
