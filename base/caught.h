// Turns what foreign code throws into a status, where it is called: a thread whose function throws ends the program.
//
//   absl::StatusOr<Assignment> chosen = Caught("the assignment policy", [&] { return policy(groups, needs); });
//
// Errors: those of the function; kInternal, which names what threw, and what the exception says.
#ifndef ADJOIN_BASE_CAUGHT_H_
#define ADJOIN_BASE_CAUGHT_H_

#include <exception>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace adjoin {

// `f` returns a Status or a StatusOr.
template <typename F>
auto Caught(absl::string_view who, F f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::exception& exception) {
    return absl::InternalError(absl::StrCat(who, " threw \"", exception.what(), "\""));
  } catch (...) {
    return absl::InternalError(absl::StrCat(who, " threw something that is no std::exception"));
  }
}

}  // namespace adjoin

#endif  // ADJOIN_BASE_CAUGHT_H_
