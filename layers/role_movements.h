// The movements of one layer or loss on one rank, by role. Rule and layer are written apart and agree on roles by name
// alone; here a disagreement is an error, never a movement that is left out.
//
//   RoleMovements roles("layer \"fc1\"");
//   roles.Add(kRoleInput);                            // known; nothing moves
//   roles.Add(kRoleOutput, movement);
//   if (const auto& sum = roles.Use(kRoleOutput)) y = sum->Apply(y, tape);
//   roles.Start("weight", home, tape);                // ahead of the forward pass in which it is used
//   if (const auto started = roles.TakeStarted("weight")) weight = started->Wait(tape);
//   ADJOIN_RETURN_IF_ERROR(roles.CheckUsed());        // after a forward pass
#ifndef ADJOIN_LAYERS_ROLE_MOVEMENTS_H_
#define ADJOIN_LAYERS_ROLE_MOVEMENTS_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "primitives/movement.h"
#include "primitives/tape.h"

namespace adjoin {

class RoleMovements {
 public:
  // `owner`: whose roles these are, for messages: "layer \"fc1\"".
  explicit RoleMovements(std::string owner) : owner_(std::move(owner)) {}

  // Makes a role known. Where it is known already, a movement and `required` are added to it.
  // `required`: it has to be used although nothing moves.
  void Add(const std::string& role, std::shared_ptr<Movement> movement = nullptr, bool required = false);

  // The role's movement; null where nothing moves. Throws StatusException, kInternal, for a role that is not known, and
  // for one in which something was started that TakeStarted has not returned.
  const std::shared_ptr<Movement>& Use(const std::string& role);

  bool Moves(const std::string& role) const;

  // Whether Start starts anything: the role has a movement, and that does not send ahead. The Start of one that does
  // may wait for ranks that come much later.
  bool Starts(const std::string& role) const;
  // Starts the role's movement; it is not used thereby. Throws StatusException: as Movement::Start.
  void Start(const std::string& role, const at::Tensor& x, Tape& tape);
  // Returns what was started in the role, once; null where nothing was.
  std::unique_ptr<Movement::Pending> TakeStarted(const std::string& role);
  // Whether anything was started and not taken; drops that, as Movement::Pending is dropped.
  bool HasStarted() const;
  void DropStarted();

  // Errors: kInternal, naming a role that moves something, or is required, and that Use has not been called for; or one
  // in which something was started that TakeStarted has not returned.
  absl::Status CheckUsed() const;

 private:
  struct Role {
    std::shared_ptr<Movement> movement;
    bool required = false;
    bool used = false;
    std::unique_ptr<Movement::Pending> started = nullptr;
  };
  std::string owner_;
  std::map<std::string, Role> roles_;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_ROLE_MOVEMENTS_H_
