// Jobs whose stages work on different micro-batches at the same time: bit for bit the losses, the weights and the
// running statistics of one micro-batch after the other.
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "absl/strings/str_replace.h"
#include "planner/plan/pipeline_stages.h"
#include "planner/spec/spec_parser.h"
#include "worker/session/session_fixture.h"
#include "worker/trace/read_trace.h"

namespace adjoin {
namespace {

// 21 samples: batches of 8, 8 and 5, the last one of two micro-batches and a shorter one. CUT0 to CUT3 are the ranks of
// the stages. A value skips two stages, and the last stage has the weights of the second.
constexpr char kStages[] = R"(
name: "small" kind: TRAIN ranks: 4 seed: 3
layout { name: "s0" CUT0 }
layout { name: "s1" CUT1 }
layout { name: "s2" CUT2 }
layout { name: "s3" CUT3 }
layer { name: "a" input: "image" x: "s0" conv { out_channels: 2 window { kernel: 3 pad_lo: 1 } } }
layer { name: "t" activation { fn: "tanh" } }
layer { name: "to1" y: "s1" repartition {} }
layer { name: "b" recompute: true conv { out_channels: 2 window { kernel: 3 pad_lo: 1 } } }
layer { name: "n" recompute: true norm { kind: "batch" } }
layer { name: "drop" recompute: true dropout { p: 0.25 } }
layer { name: "to2" y: "s2" repartition {} }
layer { name: "c" conv { out_channels: 2 window { kernel: 3 pad_lo: 1 } } }
layer { name: "sum" input: ["c", "t"] x: ["s2", "s2"] add {} }
layer { name: "to3" y: "s3" repartition {} }
layer { name: "d" weights_of: "b" conv { out_channels: 2 window { kernel: 3 pad_lo: 1 } } }
layer { name: "drop3" dropout { p: 0.5 } }
layer { name: "flat" flatten { arg: 1 } }
layer { name: "fc" linear { out_features: 2 } }
loss { kind: "cross_entropy" input: "fc" target: "label" }
dataset { name: "set" shuffle: true
  field { name: "image" idx { path: "images" } shape: [1, 6, 6] scale: 0.0039 }
  field { name: "label" idx { path: "labels" } dtype: "int64" } }
train { dataset: "set" batch: 8 microbatches: 4 epochs: 3 clip_norm: 0.5 optimizer { sgd { lr: 0.1 momentum: 0.9 } } }
evaluate { dataset: "set" metric: "accuracy" }
output_dir: "out/small"
)";

struct Outcome {
  std::vector<double> losses, norms;
  std::string model;  // the file
};

class SessionPipelineTest : public SessionTest {
 protected:
  void Write(const std::vector<std::string>& cuts,
             const std::vector<std::pair<std::string, std::string>>& changes = {}) {
    std::string text = absl::StrReplaceAll(kStages, changes);
    for (size_t i = 0; i < cuts.size(); ++i) {
      const std::string mark = "CUT" + std::to_string(i);
      text.replace(text.find(mark), mark.size(), cuts[i]);
    }
    const auto parsed = ParseSpec(text, "job");
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    spec_ = parsed->spec;
  }

  // The first stage is cut by samples, of which the last micro-batch has fewer than ranks; the second by rows.
  void WriteTwoStages(const std::vector<std::pair<std::string, std::string>>& changes = {}) {
    const std::string samples = "partition: [2, 1, 1, 1] rank: [0, 1]", rows = "partition: [1, 1, 2, 1] rank: [2, 3]";
    Write({samples, samples, rows, rows}, changes);
    // The linear layer takes all rows.
    spec_.mutable_layer(12)->add_x("one");
    LayoutSpec* one = spec_.add_layout();
    one->set_name("one");
    for (int dim = 0; dim < 4; ++dim) one->add_partition(1);
    one->add_rank(3);
  }

  void RunWith(uint32_t in_flight, Outcome& outcome) {
    spec_.mutable_train()->set_microbatches_in_flight(in_flight);
    ASSERT_EQ(system(("rm -rf " + root_ + "out").c_str()), 0);
    const absl::Status status = Run();
    ASSERT_TRUE(status.ok()) << status;
    for (const nlohmann::json& line : Metrics()) {
      if (line["type"] != "step") continue;
      outcome.losses.push_back(line["loss"]);
      outcome.norms.push_back(line["grad_norm"]);
    }
    std::ifstream in(root_ + "out/small/model.safetensors", std::ios::binary);
    outcome.model.assign(std::istreambuf_iterator<char>(in), {});
  }

  // Expects so many stages that are at different micro-batches, and the same bits for any number in flight.
  void ExpectTheSameBits(int stages) {
    Outcome serial;
    RunWith(1, serial);
    ASSERT_EQ(serial.losses.size(), 9u);
    ASSERT_FALSE(serial.model.empty());
    for (const uint32_t in_flight : {2u, 3u, 4u}) {
      Outcome pipelined;
      RunWith(in_flight, pipelined);
      const auto found = PipelineStages::Of(plan_);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(found->size(), stages);
      EXPECT_EQ(found->in_flight(0), std::min<int64_t>(in_flight, stages));
      EXPECT_EQ(pipelined.losses, serial.losses) << in_flight << " in flight";
      EXPECT_EQ(pipelined.norms, serial.norms) << in_flight << " in flight";
      EXPECT_EQ(pipelined.model, serial.model) << in_flight << " in flight";
    }
  }
};

std::string On(int rank) { return "partition: [1, 1, 1, 1] rank: " + std::to_string(rank); }

TEST_F(SessionPipelineTest, FourStages) {
  Write({On(0), On(1), On(2), On(3)});
  ExpectTheSameBits(4);
}

TEST_F(SessionPipelineTest, TwoStagesOfTwoRanks) {
  WriteTwoStages();
  ExpectTheSameBits(2);
}

// Weights that are cut over the ranks of their stage travel there while the layer before computes, for each micro-batch
// and in the validation between two steps.
TEST_F(SessionPipelineTest, WeightsThatTravelInsideAStage) {
  WriteTwoStages({{"layer { name: \"c\" conv", "layer { name: \"c\" home: SHARDED conv"},
                  {"epochs: 3 clip_norm", "epochs: 3 validate_on: \"set\" validate_every: 1 clip_norm"}});
  ExpectTheSameBits(2);
}

// With one sample in a micro-batch, the gradient that goes back to the first stage and that of `p` share memory, and
// the next micro-batch adds to the latter in place.
TEST_F(SessionPipelineTest, AGradientThatIsSentAheadIsNotAddedTo) {
  Write({On(0), On(1), On(2), On(3)},
        {{"layer { name: \"to1\" y: \"s1\" repartition {} }\n", R"(layer { name: "to1" y: "s1" repartition {} }
layer { name: "p" input: "to1" parameter { shape: [2, 6, 6] combine: "value" } }
layer { name: "plus" input: ["to1", "p"] x: ["s1", "s1"] add {} }
)"},
         {"batch: 8 microbatches: 4", "batch: 4 microbatches: 4"}});
  Outcome serial, pipelined;
  RunWith(1, serial);
  RunWith(4, pipelined);
  EXPECT_EQ(pipelined.losses, serial.losses);
  EXPECT_EQ(pipelined.model, serial.model);
  EXPECT_FALSE(serial.model.empty());
}

// A message that was sent ahead is over in a later pass, or at the end of the step: all of them are in the trace.
TEST_F(SessionPipelineTest, TracedAndMeasuredStepsAreTheSame) {
  Write({On(0), On(1), On(2), On(3)});
  Outcome plain, traced;
  RunWith(4, plain);
  spec_.mutable_train()->set_measure_layers_every(2);
  spec_.mutable_train()->mutable_trace()->set_first_step(3);
  spec_.mutable_train()->mutable_trace()->set_steps(4);
  RunWith(4, traced);
  EXPECT_EQ(traced.losses, plain.losses);
  EXPECT_EQ(traced.model, plain.model);

  std::ifstream file(root_ + "out/small/trace-3-6.pftrace", std::ios::binary);
  const auto trace = ReadTrace::Of({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
  ASSERT_TRUE(trace.ok()) << trace.status();
  std::map<std::string, int> passes;  // of the layer on each rank that no other rank has
  for (const ReadTrace::Slice& slice : trace->slices) {
    if (slice.track == "steps" && slice.category == "wait") {
      EXPECT_GE(slice.depth, 1) << slice.name << " in no movement";  // of layers' times after the step, or in it
    }
    for (const char* name : {"a forward", "a backward", "b forward", "c forward", "d forward"}) {
      if (slice.name == name) ++passes[slice.process + ": " + name];
    }
  }
  EXPECT_GE(passes["rank 0: a forward"], 14) << "3, 4, 4 and 3 micro-batches";
  EXPECT_GE(passes["rank 0: a backward"], 14);
  EXPECT_GE(passes["rank 1: b forward"], 14);
  EXPECT_GE(passes["rank 2: c forward"], 14);
  EXPECT_GE(passes["rank 3: d forward"], 14);
  int64_t traced_bytes = 0, bytes = 0;
  for (const ReadTrace::Message& message : trace->messages) {
    EXPECT_EQ(message.send.args.at("bytes"), message.receive.args.at("bytes"));
    if (message.send.process == "rank 0") traced_bytes += message.send.args.at("bytes");
  }
  int measured = 0;
  for (const nlohmann::json& line : Metrics()) {
    if (line["type"] == "layers") ++measured;
    if (line["type"] == "step" && line["step"] >= 3 && line["step"] <= 6) bytes += line["bytes_sent"].get<int64_t>();
  }
  EXPECT_EQ(traced_bytes, bytes);
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(measured, 4) << "steps 2, 4, 6 and 8";
}

TEST_F(SessionPipelineTest, ALossThatIsNotFiniteEndsAllRanksWithTheSamePlace) {
  Write({On(0), On(1), On(2), On(3)});
  spec_.mutable_train()->clear_clip_norm();
  spec_.mutable_train()->mutable_optimizer()->mutable_sgd()->set_lr(1e30);
  const std::vector<absl::Status> serial = RunCollect();
  spec_.mutable_train()->set_microbatches_in_flight(4);
  ASSERT_EQ(system(("rm -rf " + root_ + "out").c_str()), 0);
  const std::vector<absl::Status> pipelined = RunCollect();
  ASSERT_EQ(serial.size(), 4u);
  EXPECT_EQ(serial[0].code(), absl::StatusCode::kOutOfRange) << serial[0];
  EXPECT_EQ(pipelined, serial);
}

}  // namespace
}  // namespace adjoin
