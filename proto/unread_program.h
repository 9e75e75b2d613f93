// WorkerHello.rank_program of a daemon that could not read its adjoin-rank yet.
#ifndef ADJOIN_PROTO_UNREAD_PROGRAM_H_
#define ADJOIN_PROTO_UNREAD_PROGRAM_H_

namespace adjoin {

inline constexpr char kUnreadProgram[] = "-";

}  // namespace adjoin

#endif  // ADJOIN_PROTO_UNREAD_PROGRAM_H_
