#include "primitives/transport/rendezvous.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/transport/transport_factory.h"

namespace adjoin {
namespace {

Deadline Soon() { return Deadline::After(absl::Seconds(30)); }
Deadline AtOnce() { return Deadline::After(absl::Milliseconds(20)); }

class RendezvousTest : public testing::Test {
 protected:
  RendezvousTest() {
    std::string path = testing::TempDir() + "/rendezvous.XXXXXX";
    folder_ = mkdtemp(path.data());
  }
  ~RendezvousTest() override { std::filesystem::remove_all(folder_); }

  absl::Status Connect(const std::string& run_id, int rank, int size, Deadline deadline) {
    TransportOptions options;
    options.rank = rank;
    options.size = size;
    return ConnectThroughFolder({folder_, run_id}, options, deadline).status();
  }

  // Ranks as threads; their first error.
  absl::Status ConnectAll(const std::string& run_id, int size) {
    std::vector<absl::Status> statuses(size);
    std::vector<std::thread> threads;
    for (int r = 0; r < size; ++r) {
      threads.emplace_back([&, r] {
        statuses[r] = [&]() -> absl::Status {
          TransportOptions options;
          options.rank = r;
          options.size = size;
          ADJOIN_ASSIGN_OR_RETURN(const auto transport, ConnectThroughFolder({folder_, run_id}, options, Soon()));
          return transport->Close(Soon());
        }();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : statuses) ADJOIN_RETURN_IF_ERROR(status);
    return absl::OkStatus();
  }

  void Write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << content;
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.push_back(entry.path().filename());
    return names;
  }

  std::string folder_;
};

TEST_F(RendezvousTest, ConnectsRanksAndRemovesTheirFiles) {
  for (const int size : {1, 2, 5}) {
    const absl::Status status = ConnectAll("run", size);
    EXPECT_TRUE(status.ok()) << size << " ranks: " << status;
    EXPECT_TRUE(Files().empty()) << size << " ranks";
  }
}

TEST_F(RendezvousTest, IgnoresTheFilesOfAnotherRun) {
  const std::vector<std::string> stale = {"rank-0.earlier", "rank-1.earlier", "rank-1.run.AbCdEf", "rank-1"};
  for (const std::string& name : stale) Write(name, "not an address");
  const absl::Status status = ConnectAll("run", 2);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Files().size(), stale.size());
}

TEST_F(RendezvousTest, NamesTheRanksThatAreMissing) {
  Write("rank-1.run", "there");
  Write("rank-3.earlier", "not there");
  const absl::Status status = Connect("run", 2, 4, AtOnce());
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.message(), absl::StrCat("rank 2 of 4: in ", folder_,
                                           " there is no address of rank 0, 3 (file "
                                           "rank-0.run): is it running, with this folder and this run id?"));
  EXPECT_EQ(Files().size(), 2);  // its own is gone
}

TEST_F(RendezvousTest, NamesTheFirstOfManyMissingRanks) {
  const absl::Status status = Connect("run", 0, 40, AtOnce());
  EXPECT_TRUE(absl::StrContains(std::string(status.message()),
                                "of rank 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, "
                                "15, 16 and 23 more (file rank-1.run)"))
      << status;
}

TEST_F(RendezvousTest, RefusesASecondProcessOfOneRank) {
  Write("rank-0.run", "of another process");
  const absl::Status status = Connect("run", 0, 2, Soon());
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << status;
  EXPECT_TRUE(absl::StrContains(std::string(status.message()), folder_ + "/rank-0.run is already there")) << status;
  EXPECT_EQ(Files().size(), 1);  // the other's stays, and no temporary file
}

TEST_F(RendezvousTest, RefusesRanksOfAnotherNumberOfRanks) {
  TransportOptions options;
  options.rank = 1;
  options.size = 3;
  const auto other = MakeTransport(options);
  ASSERT_TRUE(other.ok()) << other.status();
  Write("rank-1.run", (*other)->Address());
  const absl::Status status = Connect("run", 0, 2, Soon());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "address 1 of 2 is that of rank 1 of 3");
}

TEST_F(RendezvousTest, RefusesRunIdsThatCannotBePartOfAFileName) {
  for (const std::string& id : {std::string(), std::string("a/b"), std::string(201, 'x'), std::string("a\0b", 3)}) {
    EXPECT_EQ(Connect(id, 0, 1, Soon()).code(), absl::StatusCode::kInvalidArgument) << id;
  }
  std::filesystem::remove_all(folder_);
  const absl::Status status = Connect("run", 0, 1, Soon());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), folder_ + "/rank-0.run cannot be made: No such file or directory");
}

}  // namespace
}  // namespace adjoin
