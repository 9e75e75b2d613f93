// Makes calls as RandomCall says, many at a time, over one connection after the other.
//
//   HostileClient client([&] { return grpc::CreateCustomChannel(address, credentials, arguments); });
//   for (int i = 0; i < 1000; ++i) client.Begin(calls.Next());
//   client.End();
//
// Every call has a deadline, so nothing waits for longer. One thread.
#ifndef ADJOIN_TESTS_ATTACK_HOSTILE_CLIENT_H_
#define ADJOIN_TESTS_ATTACK_HOSTILE_CLIENT_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "tests/attack/random_calls.h"

namespace adjoin {

class HostileClient {
 public:
  explicit HostileClient(std::function<std::shared_ptr<grpc::Channel>()> connect) : connect_(std::move(connect)) {}
  // As End.
  ~HostileClient();
  HostileClient(const HostileClient&) = delete;
  HostileClient& operator=(const HostileClient&) = delete;

  // Waits for earlier calls where many are under way.
  void Begin(RandomCall call);
  // Cancels what was left open, and returns when all calls are over.
  void End();

  // How many calls ended how.
  const std::map<grpc::StatusCode, int64_t>& ends() const { return ends_; }

 private:
  struct Call {
    RandomCall what;
    grpc::ClientContext context;
    std::unique_ptr<grpc::GenericStub> stub;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream;
    size_t sent = 0;
    int happened = 0;
    bool half_closed = false, reads = false, finishes = false;
    grpc::ByteBuffer answer;
    grpc::Status status;
  };

  // Handles the next event of any call.
  void Handle();
  void GoOn(Call& call, bool ok);
  void Send(Call& call);
  void Leave(Call& call);
  void BreakOff(Call& call);
  void Finish(Call& call);

  const std::function<std::shared_ptr<grpc::Channel>()> connect_;
  std::shared_ptr<grpc::Channel> channel_;
  int64_t begun_ = 0;
  grpc::CompletionQueue queue_;
  std::map<Call*, std::unique_ptr<Call>> calls_;
  std::deque<Call*> left_;  // nothing of them is under way
  std::map<grpc::StatusCode, int64_t> ends_;
};

}  // namespace adjoin

#endif  // ADJOIN_TESTS_ATTACK_HOSTILE_CLIENT_H_
