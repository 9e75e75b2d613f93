// The movements of one layer or loss on one rank, by role. Rule and layer are written apart and agree on roles by name
// alone; here a disagreement is an error, never a movement that is left out.
//
//   RoleMovements roles("layer \"fc1\"");
//   roles.Add(kRoleInput);                            // known; nothing moves
//   roles.Add(kRoleOutput, movement);
//   if (const auto& sum = roles.Use(kRoleOutput)) y = sum->Apply(y, tape);
//   ADJOIN_RETURN_IF_ERROR(roles.CheckUsed());        // after a forward pass
#ifndef ADJOIN_LAYERS_ROLE_MOVEMENTS_H_
#define ADJOIN_LAYERS_ROLE_MOVEMENTS_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "primitives/movement.h"

namespace adjoin {

class RoleMovements {
 public:
  // `owner`: whose roles these are, for messages: "layer \"fc1\"".
  explicit RoleMovements(std::string owner) : owner_(std::move(owner)) {}

  // Makes a role known. Where it is known already, a movement and `required` are added to it.
  // `required`: it has to be used although nothing moves.
  void Add(const std::string& role, std::shared_ptr<Movement> movement = nullptr, bool required = false);

  // The role's movement; null where nothing moves. Throws StatusException, kInternal, for a role that is not known.
  const std::shared_ptr<Movement>& Use(const std::string& role);

  bool Moves(const std::string& role) const;

  // Errors: kInternal, naming a role that moves something, or is required, and that Use has not been called for.
  absl::Status CheckUsed() const;

 private:
  struct Role {
    std::shared_ptr<Movement> movement;
    bool required = false;
    bool used = false;
  };
  std::string owner_;
  std::map<std::string, Role> roles_;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_ROLE_MOVEMENTS_H_
