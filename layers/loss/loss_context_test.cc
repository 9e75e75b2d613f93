// A loss's roles are checked as a layer's are.
#include "layers/loss/loss_context.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>

#include "layers/loss/loss_roles.h"
#include "layers/role_movements.h"
#include "primitives/status_exception.h"

namespace adjoin {
namespace {

LossContext ContextWithACount() {
  LossContext context;
  context.roles = std::make_shared<RoleMovements>("loss 0, nll of \"head\"");
  context.roles->Add(kRoleCount, nullptr, /*required=*/true);
  return context;
}

TEST(MoveForLossTest, ReturnsTheTensorWhereNothingMoves) {
  const LossContext context = ContextWithACount();
  Tape tape;
  EXPECT_EQ(MoveForLoss(context, kRoleCount, at::ones({1}), tape).item<double>(), 1);
  EXPECT_TRUE(context.roles->CheckUsed().ok()) << context.roles->CheckUsed();
}

TEST(MoveForLossTest, ARoleThatTheRuleDoesNotNameIsRefused) {
  const LossContext context = ContextWithACount();
  Tape tape;
  try {
    MoveForLoss(context, "cuont", at::ones({1}), tape);
    FAIL() << "not refused";
  } catch (const StatusException& error) {
    EXPECT_EQ(error.status(),
              absl::InternalError("loss 0, nll of \"head\" asks for the role \"cuont\", which its rule does"
                                  " not name; the rule's roles are \"count\""));
  }
}

TEST(MoveForLossTest, ARoleThatTheLossDoesNotUseIsNamed) {
  EXPECT_EQ(
      ContextWithACount().roles->CheckUsed(),
      absl::InternalError("loss 0, nll of \"head\" did not use the role \"count\" in its forward pass, but its rule"
                          " names it"));
}

}  // namespace
}  // namespace adjoin
