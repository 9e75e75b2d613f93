// The release that this source is, or becomes.
#ifndef ADJOIN_BASE_VERSION_H_
#define ADJOIN_BASE_VERSION_H_

namespace adjoin {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace adjoin

#endif  // ADJOIN_BASE_VERSION_H_
