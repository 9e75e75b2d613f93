#include "worker/daemon/output_id.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

std::string Folder(const std::string& name) {
  const std::string folder = testing::TempDir() + "/" + name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

TEST(OutputIdTest, DaemonsThatAskAtOnceGetOneId) {
  const std::string root = Folder("shared");
  std::vector<std::string> ids(8);
  std::vector<std::thread> daemons;
  for (std::string& id : ids) daemons.emplace_back([&] { id = OutputId(root).value_or("failed"); });
  for (std::thread& daemon : daemons) daemon.join();
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), 1u);
  EXPECT_EQ(ids[0].size(), 32u);
  EXPECT_EQ(OutputId(root).value(), ids[0]) << "and stays";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root)) files += entry.path().empty() ? 0 : 1;
  EXPECT_EQ(files, 1) << "nothing else is left";
}

TEST(OutputIdTest, OtherFoldersHaveOtherIds) {
  EXPECT_NE(OutputId(Folder("one")).value(), OutputId(Folder("two")).value());
}

TEST(OutputIdTest, ErrorsNameTheFileAndTheReason) {
  EXPECT_EQ(OutputId("/nowhere/at/all").status().code(), absl::StatusCode::kNotFound);
  const std::string root = Folder("odd");
  std::ofstream(root + "/.adjoin-output-id") << "something else";
  const absl::Status status = OutputId(root).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("odd/.adjoin-output-id"));
}

}  // namespace
}  // namespace adjoin
