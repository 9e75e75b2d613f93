#include "worker/daemon/calibration.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "planner/time/cost_model.h"

namespace adjoin {
namespace {

using testing::HasSubstr;

class CalibrationTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  std::string folder_;
};

RateTable Table() {
  RateTable rates;
  rates.set_machine("a test");
  KernelRate& kernel = *rates.add_kernel();
  kernel.set_kind("copy");
  kernel.set_dtype("float32");
  kernel.add_size(1000);
  kernel.set_bytes(8000);
  kernel.set_forward_seconds(1e-6);
  return rates;
}

TEST_F(CalibrationTest, WhatIsSavedIsLoaded) {
  auto loaded = LoadRates(folder_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_FALSE(loaded->has_value());
  ASSERT_TRUE(SaveRates(folder_, Table()).ok());
  loaded = LoadRates(folder_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_TRUE(loaded->has_value());
  EXPECT_EQ((*loaded)->SerializeAsString(), Table().SerializeAsString());
}

TEST_F(CalibrationTest, RefusesADamagedFileAndSaysWhatToDo) {
  for (const char* content :
       {"", "kernel {", "\x01\x02", "kernel { kind: \"copy\" dtype: \"float32\" forward_seconds: nan }"}) {
    std::ofstream(folder_ + "/" + kRatesFile) << content;
    const auto loaded = LoadRates(folder_);
    EXPECT_TRUE(absl::IsInvalidArgument(loaded.status())) << content;
    EXPECT_THAT(std::string(loaded.status().message()), HasSubstr("measure again with adjoin-worker --calibrate"));
  }
}

TEST_F(CalibrationTest, ARankThatDoesNotMeasureIsNamed) {
  CalibrationOptions options;
  options.rank_binary = "/bin/false";
  options.seconds = absl::Seconds(0.1);
  EXPECT_THAT(std::string(MeasureRates(options).status().message()), HasSubstr("rank 0 of the calibration"));
}

TEST_F(CalibrationTest, RealRanksMeasure) {
  CalibrationOptions options;
  options.rank_binary = std::filesystem::canonical("worker/adjoin-rank").string();
  options.seconds = absl::Seconds(0.5);
  const auto rates = MeasureRates(options);
  ASSERT_TRUE(rates.ok()) << rates.status();
  EXPECT_EQ(rates->ranks_at_once(), 2);
  EXPECT_TRUE(CostModel::Create(*rates).ok());
  EXPECT_THAT(RatesForPeople(*rates), HasSubstr("conv"));
}

}  // namespace
}  // namespace adjoin
