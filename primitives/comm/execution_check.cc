#include "primitives/comm/execution_check.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "primitives/transport/buffer.h"
#include "primitives/transport/tag.h"

namespace adjoin {
namespace {

constexpr std::size_t kTextBytes = 232;

// What one rank tells another: between processes of one build, on machines of one kind.
struct Word {
  int64_t op = 0;
  int64_t direction = 0;
  uint64_t fingerprint = 0;
  char text[kTextBytes] = {};  // for messages, zero-terminated
};

Word WordOf(const Execution& execution, int64_t generation) {
  Word word;
  word.op = execution.op;
  word.direction = static_cast<int64_t>(execution.direction);
  word.fingerprint = execution.fingerprint;
  const std::string text = absl::StrCat(
      OperatorText(execution.op, execution.name), execution.direction == Direction::kForward ? " forward" : " adjoint",
      ", generation ", generation, execution.what.empty() ? "" : absl::StrCat(", of ", execution.what));
  std::memcpy(word.text, text.data(), std::min(text.size(), kTextBytes - 1));
  return word;
}

Buffer BufferOf(const std::shared_ptr<Word>& word) {
  Buffer buffer;
  buffer.data = word.get();
  buffer.bytes = sizeof(Word);
  buffer.keepalive = word;
  return buffer;
}

absl::Status Differ(int rank, const Word& own, int peer, const Word& theirs) {
  const bool same = own.op == theirs.op && own.direction == theirs.direction;
  return absl::FailedPreconditionError(
      absl::StrCat("rank ", peer, " executes ", theirs.text, ", but rank ", rank, " ", own.text, ": ",
                   same ? "the operator's shape, type or layouts differ"
                        : "every rank must execute the same operators in the same order"));
}

}  // namespace

absl::Status ExecutionCheck::Compare(const Execution& execution, int64_t generation, const std::vector<int>& peers,
                                     Deadline deadline) {
  const int rank = transport_->rank();
  const auto own = std::make_shared<Word>(WordOf(execution, generation));
  struct Exchange {
    int peer;
    std::shared_ptr<Word> theirs;
    Handle receive;
    Handle send;
  };
  std::vector<Exchange> exchanges;
  for (int peer : peers) {
    // Not the operator's tags: these must meet whatever the two execute.
    const int64_t number = compared_[peer]++;
    ADJOIN_ASSIGN_OR_RETURN(const Tag in, Tag::Make({communicator_, 0, number, Direction::kFingerprint, peer, 0}));
    ADJOIN_ASSIGN_OR_RETURN(const Tag out, Tag::Make({communicator_, 0, number, Direction::kFingerprint, rank, 0}));
    Exchange exchange{peer, std::make_shared<Word>(), {}, {}};
    ADJOIN_ASSIGN_OR_RETURN(exchange.receive, transport_->StartRecv(peer, in, BufferOf(exchange.theirs)));
    ADJOIN_ASSIGN_OR_RETURN(exchange.send, transport_->StartSend(peer, out, BufferOf(own)));
    exchanges.push_back(std::move(exchange));
  }
  absl::Status status;
  for (const Exchange& exchange : exchanges) {
    const absl::Status sent = transport_->Wait(exchange.send, deadline);
    const absl::Status received = transport_->Wait(exchange.receive, deadline);
    if (!status.ok()) continue;  // the handles are given back all the same
    if (!sent.ok() || !received.ok()) {
      const absl::Status& failed = sent.ok() ? received : sent;
      status = absl::Status(failed.code(), absl::StrCat(own->text, ": waiting for rank ", exchange.peer,
                                                        " to say what it executes: ", failed.message()));
    } else if (exchange.theirs->op != own->op || exchange.theirs->direction != own->direction ||
               exchange.theirs->fingerprint != own->fingerprint) {
      status = Differ(rank, *own, exchange.peer, *exchange.theirs);
    }
  }
  return status;
}

}  // namespace adjoin
