// The benchmark's programs as a user starts them, on little data: what they measure is checked by them.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/unique_fd.h"
#include "gtest/gtest.h"
#include "tests/harness/child_process.h"

namespace adjoin {
namespace {

struct Outcome {
  int code = -1;
  std::vector<std::string> lines;
  std::string errors;
};

Outcome RunProgram(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {Runfile("bench/" + arguments[0])};
  command.insert(command.end(), arguments.begin() + 1, arguments.end());
  static int started = 0;
  const auto child = ChildProgram::Start(command, {"TMPDIR=" + testing::TempDir()},
                                         absl::StrCat(testing::TempDir(), "/bench", ++started));
  if (!child.ok()) return {-1, {}, child.status().ToString()};
  const absl::StatusOr<int> code = (*child)->Wait(Deadline::After(absl::Seconds(100)));
  Outcome outcome = {code.value_or(-1), {}, absl::StrCat((*child)->Errors(), code.status().message())};
  std::istringstream output((*child)->Output());
  for (std::string line; std::getline(output, line);) outcome.lines.push_back(line);
  return outcome;
}

TEST(Primitives, EveryOperatorIsCorrectAndTimed) {
  const std::vector<std::string> ops = {"ping_pong",  "broadcast",      "sum_reduce", "all_sum_reduce",
                                        "all_gather", "reduce_scatter", "all_to_all", "halo",
                                        "image_halo", "image_refresh",  "work_halo"};
  std::string list;
  for (const std::string& op : ops) absl::StrAppend(&list, list.empty() ? "" : ",", op);
  const Outcome outcome = RunProgram({"primitives", "--ops", list, "--bytes", "1024", "--ranks", "2,4", "--quick"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  ASSERT_EQ(outcome.lines.size(), 2 * ops.size());
  for (size_t i = 0; i < outcome.lines.size(); ++i) {
    const std::string start = absl::StrCat("adjoin,", ops[i % ops.size()], i < ops.size() ? ",2," : ",4,");
    EXPECT_TRUE(absl::StartsWith(outcome.lines[i], start)) << outcome.lines[i];
  }
}

TEST(Primitives, BesideTheSameWithoutSharedMemory) {
  const Outcome outcome = RunProgram(
      {"primitives", "--ops", "all_sum_reduce", "--bytes", "1024", "--ranks", "2", "--quick", "--channels", "both"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  ASSERT_EQ(outcome.lines.size(), 2);
  EXPECT_TRUE(absl::StartsWith(outcome.lines[0], "adjoin,all_sum_reduce,2,1024,")) << outcome.lines[0];
  EXPECT_TRUE(absl::StartsWith(outcome.lines[1], "adjoin_by_ucx,all_sum_reduce,2,1024,")) << outcome.lines[1];
}

TEST(Primitives, TheSameWithAutograd) {
  const Outcome outcome =
      RunProgram({"primitives", "--ops", "broadcast", "--bytes", "1024", "--ranks", "2", "--quick", "--autograd"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  ASSERT_EQ(outcome.lines.size(), 1);
  EXPECT_TRUE(absl::StartsWith(outcome.lines[0], "adjoin_autograd,broadcast,2,1024,")) << outcome.lines[0];
}

TEST(Primitives, WrongArgumentsAreNamed) {
  Outcome outcome = RunProgram({"primitives", "--ops", "brodcast", "--ranks", "2", "--bytes", "1024"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(absl::StrContains(outcome.errors, "no operator 'brodcast'; there are ping_pong, ")) << outcome.errors;
  outcome = RunProgram({"primitives", "--ops", "halo", "--ranks", "2", "--bytes", "1000"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(absl::StrContains(outcome.errors, "halo: 1000 bytes are no patch")) << outcome.errors;
}

TEST(Layers, EveryModeIsTimed) {
  for (const std::string mode : {"ranks", "rank", "halves", "serial"}) {
    for (const std::string layer : {"conv2d_8x512_k3", "batch_norm"}) {
      const Outcome outcome = RunProgram({"layers", "--case", layer, "--mode", mode, "--passes", "1"});
      EXPECT_EQ(outcome.code, 0) << outcome.errors;
      ASSERT_EQ(outcome.lines.size(), 1) << mode << " " << layer;
      EXPECT_TRUE(absl::StartsWith(outcome.lines[0], absl::StrCat(mode, ",", layer, ","))) << outcome.lines[0];
    }
  }
  const Outcome outcome = RunProgram({"layers", "--case", "conv", "--mode", "ranks"});
  EXPECT_NE(outcome.code, 0);
  EXPECT_TRUE(absl::StrContains(outcome.errors, "conv2d_8x512_k3")) << outcome.errors;
}

TEST(UcxEdges, BothFormsAreCorrectAndTimed) {
  const Outcome outcome = RunProgram({"ucx_edges", "60"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  ASSERT_EQ(outcome.lines.size(), 2);
  EXPECT_TRUE(absl::StartsWith(outcome.lines[0], "ucx,image_edges,2,16384,")) << outcome.lines[0];
  EXPECT_TRUE(absl::StartsWith(outcome.lines[1], "ucx,image_halo,2,16384,")) << outcome.lines[1];
}

// A port of this machine on which connections are taken and nothing is answered.
class SilentServer {
 public:
  SilentServer() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(socket_.get(), 10), 0);
    EXPECT_EQ(getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  }
  const std::string& address() const { return address_; }

 private:
  UniqueFd socket_;
  std::string address_;
};

TEST(ControlPlane, AllIsMeasuredOnAFewWorkers) {
  const Outcome outcome =
      RunProgram({"control_plane", "--folder", testing::TempDir(), "--workers", "4", "--processes", "1", "--jobs", "20",
                  "--decisions", "2", "--followers", "2", "--pages", "3", "--seconds", "3", "--synthetic"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  bool pages = false;
  std::map<std::string, int> counts;  // of the table's lines
  for (const std::string& line : outcome.lines) {
    pages = pages || (absl::StartsWith(line, "beside 3 open pages: ") && absl::StrContains(line, " 0 requests failed"));
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    if (cells.size() == 7) counts[std::string(absl::StripAsciiWhitespace(cells[1]))] = std::atoi(cells[2].c_str());
  }
  EXPECT_TRUE(pages) << outcome.errors << absl::StrJoin(outcome.lines, "\n");
  EXPECT_EQ(counts["submit, until it is acknowledged"], 20);
  EXPECT_GT(counts["heartbeat, until it is acknowledged: nobody asks"], 0);
  EXPECT_EQ(counts["the page opened, files and jobs, alone"], 1);
  EXPECT_EQ(counts["pages opened, all at once"], 3);
  EXPECT_GE(counts["a view of theirs loaded again"], 3);
  EXPECT_EQ(counts["deciding on a submission that waits (no network, no disk)"], 2);
  EXPECT_EQ(counts["deciding on one that starts, workers are free (likewise)"], 2);
  EXPECT_EQ(counts["deciding on one behind a job that waits for more of them"], 2);
}

TEST(ControlPlane, OnlyAsManyDecisionsAsCanBeMeasured) {
  const auto run = [](const std::vector<std::string>& more) {
    std::vector<std::string> command = {"control_plane", "--only-decisions"};
    command.insert(command.end(), more.begin(), more.end());
    return RunProgram(command);
  };
  for (const std::string wrong : {"3", "0", "-1"}) {
    const Outcome outcome = run({"--workers", "4", "--jobs", "20", "--decisions=" + wrong});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.lines.size(), 0);
    EXPECT_EQ(outcome.errors, absl::StrCat("control_plane: --decisions ", wrong,
                                           " cannot be measured with --workers 4 and --jobs 20: take from 1 to 2, "
                                           "which is half of the workers\n"));
  }
  EXPECT_TRUE(absl::StrContains(run({"--workers", "4", "--jobs", "1", "--decisions", "2"}).errors,
                                "take from 1 to 1, which is the jobs"));
  EXPECT_EQ(run({"--workers", "1"}).code, 1);
  for (const std::vector<std::string>& right : {std::vector<std::string>{"--decisions", "2"}, {}}) {
    std::vector<std::string> command = {"--workers", "4", "--jobs", "20"};
    command.insert(command.end(), right.begin(), right.end());
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_EQ(outcome.lines.size(), 6);
  }
}

TEST(ControlPlane, ASignalEndsItWhileItWaitsForWorkers) {
  const SilentServer server;
  const std::string folder = testing::TempDir() + "/control-plane", script = testing::TempDir() + "/coordinator";
  std::filesystem::create_directory(folder);
  std::ofstream(script) << "#!/bin/sh\necho " << server.address()
                        << " > $4\necho 'the page is at http://127.0.0.1:1/' >&2\nexec sleep 1000\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const auto program = ChildProgram::Start({Runfile("bench/control_plane"), "--coordinator-binary", script, "--folder",
                                            folder, "--workers", "2", "--processes", "1"},
                                           {}, testing::TempDir() + "/interrupted");
  ASSERT_TRUE(program.ok()) << program.status();
  const auto waits = [&] {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (std::filesystem::exists(entry.path() / "workers-0.out")) return true;
    }
    return false;
  };
  const Deadline deadline = Deadline::After(absl::Seconds(30));
  while (!waits() && !deadline.Expired()) {
  }
  ASSERT_TRUE(waits()) << (*program)->Errors();
  (*program)->Signal(SIGTERM);
  const absl::StatusOr<int> code = (*program)->Wait(Deadline::After(absl::Seconds(10)));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 1);
  EXPECT_TRUE(absl::StrContains((*program)->Errors(), "stopped by a signal")) << (*program)->Errors();
  EXPECT_TRUE(std::filesystem::is_empty(folder)) << "its own folder is removed";
}

}  // namespace
}  // namespace adjoin
