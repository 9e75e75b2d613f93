// Calls of a hostile user and a hostile daemon, at random: any method of both services, with messages that were
// changed, cut off, damaged, are empty, of random bytes, or as large as a message may be and a byte more; with any
// metadata; and streams that are opened and left, half-closed, or cancelled in the middle.
//
//   HostileAim aim;
//   RandomCalls calls(seed, aim, /*spare_others=*/false, /*oversized=*/true);
//   client.Begin(calls.Next());               // hostile_client.h
//
// The same seed makes the same kinds of calls; what is in them depends on which jobs are there as well. One thread.
#ifndef ADJOIN_TESTS_ATTACK_RANDOM_CALLS_H_
#define ADJOIN_TESTS_ATTACK_RANDOM_CALLS_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "tests/attack/hostile_calls.h"
#include "tests/fuzz/hostile_messages.h"

namespace adjoin {

// The name of the hostile user, and of the hostile daemon.
inline constexpr char kHostile[] = "mallory";

// How a client goes about a call.
enum class Manner {
  kWhole,      // sends all messages, half-closes, and reads until the end
  kOpen,       // the same, but does not half-close
  kLeft,       // stops in the middle, and leaves the call as it is
  kCancelled,  // cancels it in the middle
};

struct RandomCall {
  std::string method;                 // "/adjoin.Adjoin/Submit"
  std::vector<std::string> messages;  // as they go over the wire
  Manner manner = Manner::kWhole;
  int middle = 0;  // kLeft, kCancelled: once it has begun and so many messages were sent or have come
  std::vector<std::pair<std::string, std::string>> metadata;
  absl::Duration limit;  // the call's deadline
};

// What the hostile ones know of the cluster.
struct HostileAim {
  uint64_t store_id = 0;                 // that the coordinator tells every daemon
  std::atomic<uint64_t> newest_job = 1;  // the number of a job that somebody else has just submitted
};

class RandomCalls {
 public:
  // `aim` outlives it. `spare_others`: for a caller who may do everything to everybody: what changes a job, a node or a
  // daemon then names only the hostile ones' own, and no job that it submits runs for long. `oversized`: also with the
  // largest messages, which many callers at once had better not have in memory.
  RandomCalls(uint32_t seed, const HostileAim& aim, bool spare_others, bool oversized);

  RandomCall Next();

 private:
  using Message = google::protobuf::Message;
  using Method = google::protobuf::MethodDescriptor;

  uint32_t Below(uint32_t count) { return messages_.Below(count); }
  std::string AnyJob();
  AttemptReport AnyReport();
  std::string JobText();
  // A good request, but for what it asks.
  std::unique_ptr<Message> Request(const Method& method);
  // See `spare_others`.
  void Spare(const Method& method, Message& request);
  std::vector<std::string> Messages(const Method& method);
  std::string AtTheLimit(const Method& method);
  std::string RandomBytes(uint32_t most);
  void Damage(std::string& bytes);
  void AddMetadata(RandomCall& call);
  // The next one of OversizedCalls and IllEncodedCalls.
  HostileCall Prepared();

  std::mt19937 random_;
  HostileMessages messages_;
  const HostileAim& aim_;
  const bool spare_others_, oversized_;
  const std::vector<const Method*> methods_;
  std::deque<HostileCall> prepared_;
};

}  // namespace adjoin

#endif  // ADJOIN_TESTS_ATTACK_RANDOM_CALLS_H_
