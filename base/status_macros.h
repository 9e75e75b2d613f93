// ADJOIN_RETURN_IF_ERROR and ADJOIN_ASSIGN_OR_RETURN, which Debian's absl lacks.
//
//   ADJOIN_RETURN_IF_ERROR(store.Open());
//   ADJOIN_ASSIGN_OR_RETURN(Mesh mesh, Mesh::Create({2, 2}, {0, 1, 2, 3}));
#ifndef ADJOIN_BASE_STATUS_MACROS_H_
#define ADJOIN_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define ADJOIN_RETURN_IF_ERROR(expr)                 \
  do {                                               \
    ::absl::Status adjoin_status_ = (expr);          \
    if (!adjoin_status_.ok()) return adjoin_status_; \
  } while (false)

#define ADJOIN_CONCAT_INNER_(a, b) a##b
#define ADJOIN_CONCAT_(a, b) ADJOIN_CONCAT_INNER_(a, b)

#define ADJOIN_ASSIGN_OR_RETURN(lhs, expr) \
  ADJOIN_ASSIGN_OR_RETURN_IMPL_(ADJOIN_CONCAT_(adjoin_status_or_, __LINE__), lhs, expr)

#define ADJOIN_ASSIGN_OR_RETURN_IMPL_(result, lhs, expr) \
  auto result = (expr);                                  \
  if (!result.ok()) return std::move(result).status();   \
  lhs = std::move(result).value()

#endif  // ADJOIN_BASE_STATUS_MACROS_H_
