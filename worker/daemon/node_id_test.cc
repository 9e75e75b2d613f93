#include "worker/daemon/node_id.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace adjoin {
namespace {

namespace fs = std::filesystem;

class NodeIdTest : public ::testing::Test {
 protected:
  void SetUp() override {
    base_ = ::testing::TempDir() + "/node-id-XXXXXX";
    ASSERT_NE(mkdtemp(base_.data()), nullptr);
    folder_ = base_ + "/state";
    fs::create_directory(folder_);
    Write("machine", "0123456789abcdef0123456789abcdef\n");
    Write("other", "ffffffffffffffffffffffffffffffff\n");
    Write("empty", "");
    Write("image", "uninitialized\n");
  }
  void Write(const std::string& name, const std::string& text) { std::ofstream(base_ + "/" + name) << text; }
  std::string Id(const std::string& folder, const std::vector<std::string>& machine) {
    std::vector<std::string> files;
    for (const std::string& each : machine) files.push_back(base_ + "/" + each);
    auto id = NodeId(folder, files);
    EXPECT_TRUE(id.ok()) << id.status();
    return id.value_or("");
  }
  std::string base_, folder_;
};

TEST_F(NodeIdTest, BelongsToOneFolderOnOneMachine) {
  const std::string id = Id(folder_, {"machine"});
  EXPECT_EQ(id.size(), 32);
  EXPECT_EQ(Id(folder_, {"machine"}), id);
  fs::copy(folder_, base_ + "/copy");
  EXPECT_EQ(Id(base_ + "/copy", {"machine"}), id);
  EXPECT_NE(Id(base_ + "/copy", {"other"}), id);
  fs::create_directory(base_ + "/next");
  EXPECT_NE(Id(base_ + "/next", {"machine"}), id);
  EXPECT_EQ(id.find("0123456789"), std::string::npos) << "the machine's own name";
}

TEST_F(NodeIdTest, ChangesWithTheBootWhereTheMachineHasNoName) {
  const std::string id = Id(folder_, {"none", "other", "machine"});
  EXPECT_EQ(Id(folder_, {"empty", "other"}), id);
  EXPECT_EQ(Id(folder_, {"image", "other"}), id);
  EXPECT_NE(Id(folder_, {"none"}), Id(folder_, {"none"})) << "nothing is proved";
}

TEST_F(NodeIdTest, AFileThatHoldsNoIdIsReplaced) {
  const std::string id = Id(folder_, {"machine"});
  for (const char* text : {"", "0000", "zz"}) {
    std::ofstream(folder_ + "/node-id") << text;
    const std::string next = Id(folder_, {"machine"});
    EXPECT_NE(next, id);
    EXPECT_EQ(Id(folder_, {"machine"}), next);
  }
  EXPECT_EQ(NodeId(base_ + "/none").status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(NodeIdTest, ThisMachineHasOne) {
  auto id = NodeId(folder_);
  ASSERT_TRUE(id.ok()) << id.status();
  EXPECT_EQ(*NodeId(folder_), *id);
}

}  // namespace
}  // namespace adjoin
