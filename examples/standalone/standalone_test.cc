// The examples as a user runs them: real processes, started by themselves, by what sets the variables of a launcher, or
// by mpirun, Open MPI's and MPICH's.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "gtest/gtest.h"
#include "tests/e2e/mpirun.h"
#include "tests/harness/child_process.h"

namespace adjoin {
namespace {

using Strings = std::vector<std::string>;

std::string Program(const std::string& name) { return Runfile("examples/standalone/" + name); }

class StandaloneTest : public testing::Test {
 protected:
  struct Outcome {
    int code = -1;
    std::string output;
    std::string errors;
  };

  StandaloneTest() {
    std::string path = testing::TempDir() + "/standalone.XXXXXX";
    folder_ = mkdtemp(path.data());
    for (const char* name : {"tmp", "pids", "meet"}) std::filesystem::create_directory(folder_ + "/" + name);
  }
  ~StandaloneTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<ChildProgram> Start(const Strings& command, Strings environment) {
    environment.push_back("TMPDIR=" + folder_ + "/tmp");
    environment.push_back("PIDS=" + folder_ + "/pids");
    auto child = ChildProgram::Start(command, environment, absl::StrCat(folder_, "/", ++started_));
    EXPECT_TRUE(child.ok()) << child.status();
    return child.ok() ? *std::move(child) : nullptr;
  }
  static Outcome End(const ChildProgram* child_or_null, absl::StatusOr<int> code) {
    EXPECT_TRUE(code.ok()) << code.status();
    return {code.value_or(-1), child_or_null->Output(), child_or_null->Errors()};
  }
  Outcome Run(const Strings& command, const Strings& environment = {}) {
    const std::unique_ptr<ChildProgram> child = Start(command, environment);
    if (child == nullptr) return {};
    return End(child.get(), child->Wait(Deadline::After(absl::Seconds(60))));
  }

  Strings Names(const std::string& name) const {
    Strings names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/" + name)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  // The ranks of failing_ranks left their process ids: none of them lives, and the folder where they met is gone.
  void ExpectNothingLeft() const {
    for (const std::string& pid : Names("pids")) {
      EXPECT_TRUE(kill(atoi(pid.c_str()), 0) != 0 && errno == ESRCH) << "process " << pid << " lives";
    }
    EXPECT_TRUE(Names("tmp").empty());
  }

  std::string folder_;
  int started_ = 0;
};

TEST_F(StandaloneTest, ExchangesHalosWithTheAdjointInBackward) {
  const Outcome halo = Run({Program("halo")});
  EXPECT_EQ(halo.code, 0) << halo.errors;
  const Strings lines = {
      "<Fx, y> = ", "\n<x, F*y> = ", "\nequal; the convolved patches are those of the whole image\n"};
  for (const std::string& line : lines) EXPECT_TRUE(absl::StrContains(halo.output, line)) << halo.output;
  EXPECT_TRUE(Names("tmp").empty());
}

TEST_F(StandaloneTest, KeepsAPaddedFieldWithTheBitsOfTheSerialProgram) {
  const Outcome heat = Run({Program("heat")});
  EXPECT_EQ(heat.code, 0) << heat.errors;
  EXPECT_TRUE(absl::StrContains(heat.output, " after 200 steps\nevery cell has the bits of the serial program's\n"))
      << heat.output;
}

TEST_F(StandaloneTest, TrainsTheNetworkAsTheSerialOne) {
  const Outcome network = Run({Program("network")});
  EXPECT_EQ(network.code, 0) << network.errors;
  double first = 0, last = 0;
  int steps = 0;
  std::istringstream lines(network.output);
  for (std::string line; std::getline(lines, line); ++steps) {
    double loss = 0, serial = 1;
    int step = -1;
    EXPECT_EQ(sscanf(line.c_str(), "step %d: loss %lf, serial %lf", &step, &loss, &serial), 3) << line;
    EXPECT_EQ(step, steps);
    EXPECT_NEAR(loss, serial, 1e-11);
    if (steps == 0) first = loss;
    last = loss;
  }
  EXPECT_EQ(steps, 5);
  EXPECT_LT(last, 0.9 * first);
}

TEST_F(StandaloneTest, TakesRanksFromOtherLaunchers) {
  const std::vector<Strings> launchers = {
      {"RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID=a"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE=prterun-host-17@1"},
      {"PMI_RANK", "PMI_SIZE", "ADJOIN_RUN_ID=c"},
      {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID=5"}};
  for (const Strings& launcher : launchers) {
    std::vector<std::unique_ptr<ChildProgram>> ranks;
    for (int r = 0; r < 4; ++r) {
      ranks.push_back(Start({Program("halo"), "--folder", folder_ + "/meet"},
                            {absl::StrCat(launcher[0], "=", r), launcher[1] + "=4", launcher[2]}));
      ASSERT_NE(ranks.back(), nullptr);
    }
    for (int r = 0; r < 4; ++r) {
      const Outcome outcome = End(ranks[r].get(), ranks[r]->Wait(Deadline::After(absl::Seconds(60))));
      EXPECT_EQ(outcome.code, 0) << launcher[0] << " " << r << ": " << outcome.errors;
      EXPECT_EQ(absl::StrContains(outcome.output, "equal;"), r == 0) << outcome.output;
    }
    EXPECT_TRUE(Names("meet").empty()) << launcher[0];
  }
}

class StandaloneUnderMpirunTest : public StandaloneTest, public testing::WithParamInterface<Mpirun> {
 protected:
  void SetUp() override { ASSERT_TRUE(std::filesystem::exists(GetParam().command[0])) << "tools/setup installs it"; }
  // Runs halo, with what a shell makes of `more`.
  Outcome RunHalo(const std::string& more) {
    Strings command = {"/bin/sh", "-c", absl::StrCat("exec \"$@\" ", more), "sh"};
    command.insert(command.end(), GetParam().command.begin(), GetParam().command.end());
    command.insert(command.end(),
                   {"-n", "4", std::filesystem::absolute(Program("halo")).string(), "--folder", folder_ + "/meet"});
    return Run(command, MpirunEnvironment(folder_));
  }
};

TEST_P(StandaloneUnderMpirunTest, ExchangesHalos) {
  std::string run_id;
  if (GetParam().name == "Mpich") {  // it gives a run no name
    run_id = "--run_id \"$(date +%s%N)\"";
    const Outcome unnamed = RunHalo("");
    EXPECT_NE(unnamed.code, 0);
    EXPECT_TRUE(absl::StrContains(unnamed.errors, run_id + " under MPICH's mpirun")) << unnamed.errors;
  }
  const Outcome halo = RunHalo(run_id);
  EXPECT_EQ(halo.code, 0) << halo.output << halo.errors;
  EXPECT_TRUE(absl::StrContains(halo.output, "equal;")) << halo.output;
  EXPECT_EQ(halo.output.find("equal;"), halo.output.rfind("equal;")) << "one rank speaks";
  EXPECT_TRUE(Names("meet").empty());
}

INSTANTIATE_TEST_SUITE_P(All, StandaloneUnderMpirunTest, testing::ValuesIn(kMpiruns),
                         [](const auto& info) { return info.param.name; });

TEST_F(StandaloneTest, NamesTheMissingRanks) {
  const Outcome outcome = Run({Program("halo"), "--folder", folder_ + "/meet", "--run_id", "x", "--timeout", "0.1"},
                              {"RANK=1", "WORLD_SIZE=3"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.errors,
            absl::StrCat("rank 1: DEADLINE_EXCEEDED: rank 1 of 3: in ", folder_, "/meet there is no address of rank ",
                         "0, 2 (file rank-0.x): is it running, with this folder and this run id?\n"));
}

TEST_F(StandaloneTest, NamesTheFlagsForVariablesThatALauncherLeavesOut) {
  const std::string halo = Program("halo");
  Outcome outcome = Run({halo}, {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1", "PMIX_NAMESPACE=1"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(absl::StrContains(outcome.errors, "--folder FOLDER")) << outcome.errors;
  outcome = Run({halo, "--folder", folder_}, {"PMI_RANK=0", "PMI_SIZE=1"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(absl::StrContains(outcome.errors, "--run_id NAME, another one for every run, such as --run_id \"$(date"))
      << outcome.errors;
  for (const Strings& half : {Strings{"RANK=0"},
                              {"WORLD_SIZE=4"},
                              {"RANK=4", "WORLD_SIZE=4"},
                              {"RANK=-1", "WORLD_SIZE=4"},
                              {"RANK=one", "WORLD_SIZE=4"}}) {
    outcome = Run({halo}, half);
    EXPECT_EQ(outcome.code, 1) << half[0];
    EXPECT_TRUE(absl::StrContains(outcome.errors, "these must be a rank and the number of ranks")) << outcome.errors;
  }
  EXPECT_EQ(Run({halo, "--no_such_flag"}).code, 2);
  EXPECT_EQ(Run({halo, "--timeout", "0"}).code, 2);
}

TEST_F(StandaloneTest, EndsAllRanksWhenOneFails) {
  struct Case {
    std::string failure, timeout;
    int code;
    std::string error;
  };
  for (const Case& c : {Case{"status", "50", 1, "rank 2: DATA_LOSS: as asked\n"},
                        Case{"exception", "50", 1, "rank 2: INTERNAL: as asked\n"}, Case{"exit", "50", 7, ""},
                        Case{"kill", "50", 128 + SIGKILL, ""}, Case{"stop", "5", 124, ""}}) {
    const Outcome outcome = Run({Program("failing_ranks"), "--timeout", c.timeout}, {"FAILURE=" + c.failure});
    EXPECT_EQ(outcome.code, c.code) << c.failure << ": " << outcome.errors;
    EXPECT_TRUE(absl::StrContains(outcome.errors, c.error)) << c.failure << ": " << outcome.errors;
    ExpectNothingLeft();
    // A deadline may come, on a busy machine, before the ranks have come to writing theirs.
    if (c.failure != "stop") {
      EXPECT_EQ(Names("pids").size(), 4) << c.failure;
    }
    for (const std::string& pid : Names("pids")) std::filesystem::remove(folder_ + "/pids/" + pid);
  }
}

// Rank 2 is stopped, so that the others wait for it.
TEST_F(StandaloneTest, StopsTheRanksWithTheLauncher) {
  const std::unique_ptr<ChildProgram> child = Start({Program("failing_ranks")}, {"FAILURE=stop"});
  ASSERT_NE(child, nullptr);
  const Deadline deadline = Deadline::After(absl::Seconds(30));
  while (Names("pids").size() < 4 && !deadline.Expired()) std::this_thread::yield();
  EXPECT_EQ(Names("pids").size(), 4);
  child->Signal(SIGTERM);
  const Outcome outcome = End(child.get(), child->Wait(deadline));
  EXPECT_EQ(outcome.code, 128 + SIGTERM) << outcome.errors;
  ExpectNothingLeft();
}

TEST_F(StandaloneTest, LinksNoGrpc) {
  for (const char* name : {"halo", "heat", "network"}) {
    // What it links, what these link in turn, and what it brings of its own.
    const Outcome libraries = Run({"/usr/bin/ldd", Program(name)});
    EXPECT_EQ(libraries.code, 0) << libraries.errors;
    EXPECT_TRUE(absl::StrContains(libraries.output, "libucp.so")) << libraries.output;
    EXPECT_FALSE(absl::StrContains(libraries.output, "grpc")) << libraries.output;
    const Outcome symbols = Run({"/usr/bin/nm", "--demangle", Program(name)});
    EXPECT_EQ(symbols.code, 0) << symbols.errors;
    EXPECT_TRUE(absl::StrContains(symbols.output, "adjoin::Launch("));
    for (const char* space : {"grpc::", "grpc_", "google::protobuf"}) {
      EXPECT_FALSE(absl::StrContains(symbols.output, space)) << name << " has symbols of " << space;
    }
  }
}

}  // namespace
}  // namespace adjoin
