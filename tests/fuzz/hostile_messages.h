// What a hostile user and a hostile daemon send: good messages that are changed at random. For campaigns against the
// coordinator's decisions (campaign_test.cc) and against its sockets (tests/attack/socket_campaign_test.cc).
//
//   std::mt19937 random(seed);
//   HostileMessages messages("mallory", random);
//   service.WorkerSaid(connection, messages.Said(messages.Report("job-7", /*epoch=*/9, store_id)));
//
// The same seed makes the same messages. One thread.
#ifndef ADJOIN_TESTS_FUZZ_HOSTILE_MESSAGES_H_
#define ADJOIN_TESTS_FUZZ_HOSTILE_MESSAGES_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "proto/coordinator.pb.h"

namespace adjoin {

class HostileMessages {
 public:
  // `name`: the daemon's. `random` outlives it.
  HostileMessages(std::string name, std::mt19937& random) : name_(std::move(name)), random_(random) {}

  uint32_t Below(uint32_t count) { return static_cast<uint32_t>(random_() % count); }
  template <typename T>
  T Of(const std::vector<T>& values) {
    return values[Below(static_cast<uint32_t>(values.size()))];
  }
  // None to four changes (message_mutator.h).
  void Change(google::protobuf::Message& message);

  // An attempt of a job that the daemon claims to have, of an epoch near the one given, and mostly of this store.
  AttemptReport Report(const std::string& job, std::optional<uint64_t> epoch, uint64_t store_id);
  // The daemon's first message. Its name is the daemon's own.
  WorkerHello Hello(const std::vector<AttemptReport>& reports);
  // A later one, of any kind, about the attempt.
  WorkerMessage Said(const AttemptReport& report);

 private:
  const std::string name_;
  std::mt19937& random_;
};

}  // namespace adjoin

#endif  // ADJOIN_TESTS_FUZZ_HOSTILE_MESSAGES_H_
