// Optimizers, schedules and clipping, step by step, against torch.optim of PyTorch in Python: this program takes 50
// steps with random gradients in float64 and writes them down; check_optimizer.py takes them again.
#include "worker/training/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/randn.h>

#include "absl/strings/str_cat.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/layout.h"
#include "worker/training/gradient_norm.h"
#include "worker/training/schedule.h"

namespace adjoin {
namespace {

constexpr int64_t kSteps = 50;

Plan PlanOfThree() {
  Plan plan;
  const std::vector<std::vector<int64_t>> shapes = {{3, 4}, {5}, {2, 2}};
  for (size_t i = 0; i < shapes.size(); ++i) {
    ParameterPlan* parameter = plan.add_parameter();
    parameter->set_name(absl::StrCat("p", i));
    parameter->set_fan_in(4);
    parameter->set_frozen(i == 2);
    *parameter->mutable_home() = ToProto(Layout::Owner(shapes[i], DType::kFloat64, 0));
  }
  return plan;
}

std::vector<double> Numbers(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().contiguous();
  return std::vector<double>(flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
}

nlohmann::json AllNumbers(const Parameters& parameters) {
  nlohmann::json all;
  for (int i = 0; i < parameters.size(); ++i) all.push_back(Numbers(parameters.tensor(i)));
  return all;
}

void SetGradients(Parameters& parameters) {
  for (int i = 0; i < parameters.size(); ++i) {
    if (!parameters.frozen(i)) {
      at::Tensor(parameters.tensor(i)).mutable_grad() = at::randn(parameters.tensor(i).sizes(), at::kDouble);
    }
  }
}

// The rule as Python's torch.optim writes it, and with the schedule as torch.optim.lr_scheduler does.
struct Case {
  Train train;
  std::string optimizer;
  std::string scheduler;  // in Python, for the optimizer o; empty: none
};

Phase PhaseOf(const std::string& shape, uint64_t steps, double from, double to) {
  Phase phase;
  phase.set_shape(shape);
  phase.set_steps(steps);
  phase.set_from(from);
  phase.set_to(to);
  return phase;
}

std::vector<Case> Optimizers() {
  std::vector<Case> cases;
  const auto sgd = [&](double momentum, double dampening, double decay, bool nesterov) {
    Case next;
    Sgd& spec = *next.train.mutable_optimizer()->mutable_sgd();
    spec.set_lr(0.1);
    spec.set_momentum(momentum);
    spec.set_dampening(dampening);
    spec.set_weight_decay(decay);
    spec.set_nesterov(nesterov);
    next.optimizer = absl::StrCat("SGD(p, lr=0.1, momentum=", momentum, ", dampening=", dampening,
                                  ", weight_decay=", decay, ", nesterov=", nesterov ? "True" : "False", ")");
    cases.push_back(next);
  };
  sgd(0, 0, 0, false);
  sgd(0.9, 0, 0, false);
  sgd(0.9, 0.5, 0.01, false);
  sgd(0.8, 0, 0.02, true);
  for (const bool decoupled : {false, true}) {
    Case next;
    Adam& spec = *next.train.mutable_optimizer()->mutable_adam();
    spec.set_lr(0.01);
    spec.set_decoupled(decoupled);
    next.optimizer = decoupled ? "AdamW(p, lr=0.01, weight_decay=0)" : "Adam(p, lr=0.01)";
    cases.push_back(next);
    spec.set_beta1(0.7);
    spec.set_beta2(0.9);
    spec.set_eps(1e-3);
    spec.set_weight_decay(0.1);
    next.optimizer =
        absl::StrCat(decoupled ? "AdamW" : "Adam", "(p, lr=0.01, betas=(0.7, 0.9), eps=1e-3, weight_decay=0.1)");
    cases.push_back(next);
  }
  return cases;
}

std::vector<Case> Schedules() {
  std::vector<Case> cases(4, Optimizers().back());
  *cases[0].train.add_schedule() = PhaseOf("linear", 13, 0.25, 1.5);
  cases[0].scheduler = "LambdaLR(o, lambda k: 0.25 + 1.25 * min(k, 13) / 13)";
  *cases[1].train.add_schedule() = PhaseOf("linear", 10, 0.1, 1);
  cases[1].scheduler = "LinearLR(o, start_factor=0.1, end_factor=1.0, total_iters=10)";
  *cases[2].train.add_schedule() = PhaseOf("cosine", kSteps, 1, 0.2);
  cases[2].scheduler = "CosineAnnealingLR(o, T_max=50, eta_min=0.002)";
  for (int i = 0; i < 3; ++i)
    *cases[3].train.add_schedule() = PhaseOf("step", 12, std::pow(0.5, i), std::pow(0.5, i + 1));
  cases[3].scheduler = "MultiStepLR(o, milestones=[12, 24, 36], gamma=0.5)";
  Case warm = Optimizers()[1];
  *warm.train.add_schedule() = PhaseOf("linear", 5, 0.2, 1);
  *warm.train.add_schedule() = PhaseOf("cosine", 30, 1, 0);
  warm.scheduler =
      "LambdaLR(o, lambda k: 0.2 + 0.8 * k / 5 if k < 5 else (1 + math.cos(math.pi * min(k - 5, 30) / 30)) / 2)";
  cases.push_back(warm);
  Case sequence = Optimizers()[1];
  *sequence.train.add_schedule() = PhaseOf("linear", 5, 0.2, 1);
  for (int i = 0; i < 5; ++i) {
    *sequence.train.add_schedule() = PhaseOf("step", 10, std::pow(0.3, i), std::pow(0.3, i + 1));
  }
  sequence.scheduler =
      "SequentialLR(o, [LinearLR(o, start_factor=0.2, total_iters=5), StepLR(o, step_size=10, gamma=0.3)], "
      "milestones=[5])";
  cases.push_back(sequence);
  return cases;
}

// Takes the steps and notes them.
nlohmann::json Take(const Case& of) {
  Parameters parameters = Parameters::Create(PlanOfThree(), 0).value();
  parameters.Initialise(1);
  auto optimizer = TrainOptimizer::Create(of.train, parameters).value();
  const GradientNorm gradients = GradientNorm::Create(parameters).value();
  nlohmann::json taken = {{"optimizer", of.optimizer},
                          {"scheduler", of.scheduler},
                          {"clip_norm", of.train.clip_norm()},
                          {"before", AllNumbers(parameters)}};
  for (int64_t step = 0; step < kSteps; ++step) {
    SetGradients(parameters);
    nlohmann::json now = {{"lr", optimizer->LearningRate(step)}};
    for (int i = 0; i < 2; ++i) now["gradients"].push_back(Numbers(parameters.tensor(i).grad()));
    if (of.train.clip_norm() > 0) {
      const double norm = std::sqrt(gradients.SquaresHere().item<double>());
      now["norm"] = norm;
      gradients.Clip(norm, of.train.clip_norm());
    }
    optimizer->Step(step);
    now["after"] = AllNumbers(parameters);
    taken["steps"].push_back(now);
  }
  return taken;
}

TEST(TrainOptimizerTest, EveryStepEqualsTorchOptims) {
  at::manual_seed(5);
  std::vector<Case> cases = Optimizers();
  for (const Case& next : Schedules()) cases.push_back(next);
  for (const int i : {1, 7}) {
    cases.push_back(Optimizers()[i]);
    cases.back().train.set_clip_norm(4);  // the gradients are 17 standard normal numbers: clips about half of the steps
  }
  nlohmann::json all;
  for (const Case& next : cases) all.push_back(Take(next));
  const std::string path = absl::StrCat(testing::TempDir(), "/steps.json");
  std::ofstream(path) << all;
  EXPECT_EQ(std::system(absl::StrCat("/usr/bin/python3 worker/training/check_optimizer.py ", path).c_str()), 0);
}

// From what States() had after 20 steps: the very same bits from there on.
TEST(TrainOptimizerTest, ResumesFromItsStates) {
  for (const Case& next : Optimizers()) {
    const Plan plan = PlanOfThree();
    std::vector<at::Tensor> kept_parameters, kept_states, after;
    for (const bool resumed : {false, true}) {
      Parameters parameters = Parameters::Create(plan, 0).value();
      parameters.Initialise(1);
      auto optimizer = TrainOptimizer::Create(next.train, parameters).value();
      at::manual_seed(9);
      for (int64_t step = 0; step < kSteps; ++step) {
        SetGradients(parameters);
        at::NoGradGuard no_grad;
        if (step == 20) {
          for (int i = 0; i < parameters.size(); ++i) {
            if (resumed) at::Tensor(parameters.tensor(i)).copy_(kept_parameters[i]);
            kept_parameters.push_back(parameters.tensor(i).detach().clone());
          }
          for (size_t i = 0; i < optimizer->States().size(); ++i) {
            const TrainOptimizer::State& state = optimizer->States()[i];
            EXPECT_EQ(state.tensor.sizes(), parameters.tensor(state.parameter).sizes()) << state.name;
            if (resumed) at::Tensor(state.tensor).copy_(kept_states[i]);
            kept_states.push_back(state.tensor.clone());
          }
        }
        if (!resumed || step >= 20) optimizer->Step(step);
      }
      for (int i = 0; i < 2; ++i) {
        if (resumed) {
          EXPECT_TRUE(at::equal(parameters.tensor(i), after[i])) << next.optimizer;
        }
        after.push_back(parameters.tensor(i).detach().clone());
      }
    }
  }
}

TEST(TrainOptimizerTest, NamesItsStates) {
  const Parameters parameters = Parameters::Create(PlanOfThree(), 0).value();
  const std::vector<Case> cases = Optimizers();
  const auto names = [&](const Case& of) {
    std::vector<std::string> all;
    const auto optimizer = TrainOptimizer::Create(of.train, parameters).value();
    for (const TrainOptimizer::State& state : optimizer->States()) all.push_back(state.name);
    return all;
  };
  EXPECT_TRUE(names(cases[0]).empty());
  EXPECT_EQ(names(cases[1]), (std::vector<std::string>{"momentum_buffer/p0", "momentum_buffer/p1"}));
  EXPECT_EQ(names(cases[4]), (std::vector<std::string>{"exp_avg/p0", "exp_avg_sq/p0", "exp_avg/p1", "exp_avg_sq/p1"}));
}

// One copy of a replicated gradient counts, and each part of a cut one.
TEST(GradientNormTest, CountsEachElementOnce) {
  Plan plan;
  const std::vector<Layout> homes = {*Layout::Replicated({3}, DType::kFloat32, {0, 1}),
                                     *Layout::Partition({4}, DType::kFloat32, {2}, {0, 1}),
                                     Layout::Owner({2}, DType::kFloat32, 1)};
  for (size_t i = 0; i < homes.size(); ++i) {
    ParameterPlan* parameter = plan.add_parameter();
    parameter->set_name(absl::StrCat("p", i));
    *parameter->mutable_home() = ToProto(homes[i]);
  }
  double squares = 0;
  for (int rank = 0; rank < 3; ++rank) {
    Parameters parameters = Parameters::Create(plan, rank).value();
    const GradientNorm gradients = GradientNorm::Create(parameters).value();
    for (int i = 0; i < parameters.size(); ++i) {
      at::Tensor(parameters.tensor(i)).mutable_grad() = at::full_like(parameters.tensor(i), 2);
    }
    squares += gradients.SquaresHere().item<double>();
    gradients.Clip(6, 3);
    EXPECT_TRUE(at::allclose(parameters.tensor(0).grad(), at::full_like(parameters.tensor(0), 1)));
  }
  EXPECT_EQ(squares, 4 * (3 + 4 + 2));
}

TEST(ScheduleTest, KeepsItsLastFactor) {
  Train train;
  EXPECT_EQ(ScheduleFactor(train, 1000), 1);
  *train.add_schedule() = PhaseOf("step", 2, 1, 0.5);
  *train.add_schedule() = PhaseOf("linear", 4, 0, 1);
  const std::vector<double> expected = {1, 1, 0, 0.25, 0.5, 0.75, 1, 1};
  for (size_t step = 0; step < expected.size(); ++step) EXPECT_EQ(ScheduleFactor(train, step), expected[step]) << step;
  EXPECT_EQ(ScheduleFactor(train, std::numeric_limits<int64_t>::max()), 1);
}

}  // namespace
}  // namespace adjoin
