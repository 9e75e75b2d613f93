// Optimizers, schedules and clipping, step by step, against torch.optim of PyTorch in Python: this program takes 50
// steps with random gradients in float64 and writes them down; check_optimizer.py takes them again.
#include "worker/training/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
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
#include "primitives/geometry/box.h"
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
    spec.set_amsgrad(true);
    next.optimizer = absl::StrCat(next.optimizer.substr(0, next.optimizer.size() - 1), ", amsgrad=True)");
    cases.push_back(next);
  }
  const auto rmsprop = [&](const RmsProp& spec, const std::string& more) {
    Case next;
    *next.train.mutable_optimizer()->mutable_rmsprop() = spec;
    next.train.mutable_optimizer()->mutable_rmsprop()->set_lr(0.01);
    next.optimizer = absl::StrCat("RMSprop(p, lr=0.01", more, ")");
    cases.push_back(next);
  };
  RmsProp moving;
  rmsprop(moving, "");
  moving.set_alpha(0.8);
  moving.set_eps(1e-3);
  moving.set_weight_decay(0.1);
  rmsprop(moving, ", alpha=0.8, eps=1e-3, weight_decay=0.1");
  moving.set_momentum(0.9);
  rmsprop(moving, ", alpha=0.8, eps=1e-3, weight_decay=0.1, momentum=0.9");
  moving.set_centered(true);
  rmsprop(moving, ", alpha=0.8, eps=1e-3, weight_decay=0.1, momentum=0.9, centered=True");
  const auto adagrad = [&](const Adagrad& spec, const std::string& more) {
    Case next;
    *next.train.mutable_optimizer()->mutable_adagrad() = spec;
    next.train.mutable_optimizer()->mutable_adagrad()->set_lr(0.1);
    next.optimizer = absl::StrCat("Adagrad(p, lr=0.1", more, ")");
    cases.push_back(next);
  };
  Adagrad summing;
  adagrad(summing, "");
  summing.set_lr_decay(0.05);
  adagrad(summing, ", lr_decay=0.05");
  summing.set_weight_decay(0.1);
  summing.set_initial(0.3);
  summing.set_eps(1e-3);
  adagrad(summing, ", lr_decay=0.05, weight_decay=0.1, initial_accumulator_value=0.3, eps=1e-3");
  return cases;
}

// Those of one kind of optimizer, as its name in Python begins: "Adam(".
Case FirstOf(const std::string& name) {
  for (const Case& next : Optimizers()) {
    if (next.optimizer.rfind(name, 0) == 0) return next;
  }
  ADD_FAILURE() << "no case of " << name;
  return {};
}
Case LastOf(const std::string& name) {
  Case last;
  for (const Case& next : Optimizers()) {
    if (next.optimizer.rfind(name, 0) == 0) last = next;
  }
  return last;
}

std::vector<Case> Schedules() {
  std::vector<Case> cases(4, LastOf("AdamW("));
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
  for (const char* name : {"RMSprop(", "Adagrad("}) {
    cases.push_back(LastOf(name));
    *cases.back().train.add_schedule() = PhaseOf("linear", 10, 0.1, 1);
    cases.back().scheduler = "LinearLR(o, start_factor=0.1, end_factor=1.0, total_iters=10)";
  }
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
  for (const char* name : {"SGD(p, lr=0.1, momentum=0.9", "AdamW(", "RMSprop(", "Adagrad("}) {
    cases.push_back(LastOf(name));
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
  // Names of the first parameter's blocks; the second one has the same.
  const auto names = [&](const Case& of) {
    std::vector<std::string> all;
    const auto optimizer = TrainOptimizer::Create(of.train, parameters).value();
    const size_t count = optimizer->States().size() / 2;
    for (size_t i = 0; i < 2 * count; ++i) {
      const std::string& name = optimizer->States()[i].name;
      EXPECT_EQ(name.substr(name.size() - 3), i < count ? "/p0" : "/p1");
      if (i < count) all.push_back(name.substr(0, name.size() - 3));
      if (i >= count) {
        EXPECT_EQ(name.substr(0, name.size() - 3), all[i - count]);
      }
    }
    return all;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(FirstOf("SGD(")), Names());
  EXPECT_EQ(names(LastOf("SGD(")), Names({"momentum_buffer"}));
  for (const char* adam : {"Adam(", "AdamW("}) {
    EXPECT_EQ(names(FirstOf(adam)), Names({"exp_avg", "exp_avg_sq"}));
    EXPECT_EQ(names(LastOf(adam)), Names({"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}));
  }
  EXPECT_EQ(names(FirstOf("RMSprop(")), Names({"square_avg"}));
  EXPECT_EQ(names(LastOf("RMSprop(")), Names({"square_avg", "momentum_buffer", "grad_avg"}));
  EXPECT_EQ(names(FirstOf("Adagrad(")), Names({"sum"}));
}

// A parameter in four uneven blocks, one of them empty, is what it is as a whole.
TEST(TrainOptimizerTest, BlocksOnRanksStepAsTheWhole) {
  const auto cut = Layout::Partition({7, 3}, DType::kFloat64, {4, 1}, {0, 1, 2, 3}, {{0, {3, 1, 0, 3}}});
  ASSERT_TRUE(cut.ok()) << cut.status();
  const auto plan_of = [](const Layout& home) {
    Plan plan;
    ParameterPlan* parameter = plan.add_parameter();
    parameter->set_name("p");
    *parameter->mutable_home() = ToProto(home);
    return plan;
  };
  for (const Case& next : Optimizers()) {
    at::manual_seed(4);
    std::vector<at::Tensor> gradients;
    const at::Tensor initial = at::randn({7, 3}, at::kDouble);
    for (int step = 0; step < 5; ++step) gradients.push_back(at::randn({7, 3}, at::kDouble));
    at::Tensor whole;
    for (int rank = -1; rank < 4; ++rank) {
      const Plan plan = plan_of(rank < 0 ? Layout::Owner({7, 3}, DType::kFloat64, 0) : *cut);
      Parameters parameters = Parameters::Create(plan, std::max(rank, 0)).value();
      ASSERT_TRUE(parameters.SetFromGlobal(0, initial).ok());
      auto optimizer = TrainOptimizer::Create(next.train, parameters).value();
      const Interval rows = rank < 0 ? Interval{0, 7} : cut->BoxOf(rank)[0];
      for (int step = 0; step < 5; ++step) {
        at::Tensor(parameters.tensor(0)).mutable_grad() = gradients[step].narrow(0, rows.lo, rows.size()).clone();
        optimizer->Step(step);
      }
      if (rank < 0) whole = parameters.tensor(0).detach().clone();
      // LibTorch's kernels may round the last numbers of a tensor in another way than the first ones.
      const at::Tensor part = whole.narrow(0, rows.lo, rows.size());
      EXPECT_TRUE(at::allclose(parameters.tensor(0), part, /*rtol=*/1e-14, /*atol=*/1e-15))
          << next.optimizer << " on rank " << rank;
    }
  }
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
