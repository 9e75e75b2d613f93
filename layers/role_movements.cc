#include "layers/role_movements.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "primitives/status_exception.h"

namespace adjoin {
namespace {

constexpr char kReadOnce[] = "right is that each Forward reads it with Parameter, once";

}  // namespace

void RoleMovements::Add(const std::string& role, std::shared_ptr<Movement> movement, bool required) {
  Role& entry = roles_[role];
  if (movement != nullptr) entry.movement = std::move(movement);
  entry.required = entry.required || required || entry.movement != nullptr;
}

const std::shared_ptr<Movement>& RoleMovements::Use(const std::string& role) {
  const auto entry = roles_.find(role);
  if (entry == roles_.end()) {
    const auto name = [](std::string* out, const auto& known) { absl::StrAppend(out, "\"", known.first, "\""); };
    throw StatusException(absl::InternalError(absl::StrCat(owner_, " asks for the role \"", role,
                                                           "\", which its rule does not name; the rule's roles are ",
                                                           absl::StrJoin(roles_, ", ", name))));
  }
  if (entry->second.started != nullptr) {
    throw StatusException(absl::InternalError(
        absl::StrCat(owner_, " moves its parameter of the role \"", role, "\" itself; ", kReadOnce)));
  }
  entry->second.used = true;
  return entry->second.movement;
}

bool RoleMovements::Moves(const std::string& role) const {
  const auto entry = roles_.find(role);
  return entry != roles_.end() && entry->second.movement != nullptr;
}

bool RoleMovements::Starts(const std::string& role) const {
  return Moves(role) && !roles_.at(role).movement->options().sends_ahead;
}

void RoleMovements::Start(const std::string& role, const at::Tensor& x, Tape& tape) {
  if (!Starts(role)) return;
  Role& of = roles_.at(role);
  of.started = of.movement->Start(x, tape);
}

std::unique_ptr<Movement::Pending> RoleMovements::TakeStarted(const std::string& role) {
  const auto entry = roles_.find(role);
  return entry == roles_.end() ? nullptr : std::move(entry->second.started);
}

bool RoleMovements::HasStarted() const {
  return std::any_of(roles_.begin(), roles_.end(), [](const auto& role) { return role.second.started != nullptr; });
}

void RoleMovements::DropStarted() {
  for (auto& [role, entry] : roles_) entry.started.reset();
}

absl::Status RoleMovements::CheckUsed() const {
  for (const auto& [role, entry] : roles_) {
    if (entry.started != nullptr) {
      return absl::InternalError(absl::StrCat(owner_, " did not read its parameter of the role \"", role,
                                              "\" in this forward pass; ", kReadOnce));
    }
    if (!entry.required || entry.used) continue;
    return absl::InternalError(
        absl::StrCat(owner_, " did not use the role \"", role, "\" in its forward pass, but its rule names it"));
  }
  return absl::OkStatus();
}

}  // namespace adjoin
