#include "primitives/transport/ucx_transport.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"

namespace adjoin {
namespace {

Deadline Soon() { return Deadline::After(absl::Seconds(30)); }

Tag MakeTag(int source, int64_t op) { return *Tag::Make({0, op, 0, Direction::kForward, source, 0}); }

Buffer BufferOf(std::vector<char>& bytes) {
  Buffer buffer;
  buffer.data = bytes.data();
  buffer.bytes = bytes.size();
  return buffer;
}

using Transports = std::vector<std::unique_ptr<UcxTransport>>;

// Each rank creates, connects and destroys its transport in its own thread, as processes would.
absl::Status RunThreads(int n, UcxTransport::Options options, const std::function<absl::Status(UcxTransport&)>& fn) {
  std::vector<std::string> addresses(n);
  std::vector<absl::Status> statuses(n);
  std::atomic<int> created{0};
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r) {
    threads.emplace_back([&, r, mine = options]() mutable {
      mine.rank = r;
      mine.size = n;
      auto transport = UcxTransport::Create(mine);
      if (transport.ok()) addresses[r] = (*transport)->Address();
      ++created;
      while (created < n) std::this_thread::yield();
      statuses[r] = transport.status();
      if (statuses[r].ok()) statuses[r] = (*transport)->Connect(addresses, Soon());
      if (statuses[r].ok()) statuses[r] = fn(**transport);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int r = 0; r < n; ++r) {
    const absl::Status& status = statuses[r];
    if (!status.ok()) return absl::Status(status.code(), absl::StrCat("rank ", r, ": ", status.message()));
  }
  return absl::OkStatus();
}

TEST(UcxTransportTest, RefusesWrongOptions) {
  auto message = [](const UcxTransport::Options& options) {
    const auto transport = UcxTransport::Create(options);
    EXPECT_EQ(transport.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(transport.status().message());
  };
  UcxTransport::Options options;
  options.size = 0;
  EXPECT_EQ(message(options), "UcxTransport: size 0 is not positive");
  options.size = 2;
  options.rank = 2;
  EXPECT_EQ(message(options), "UcxTransport: rank 2 is not in [0, 2)");
  options.rank = 0;
  options.port_range = "41000";
  EXPECT_EQ(message(options), "UcxTransport: port_range '41000' is not like 41000-41999");
  options.port_range = "";
  options.shared_memory = options.other_nodes = false;
  EXPECT_TRUE(absl::StrContains(message(options), "no way to the other ranks"));
}

TEST(UcxTransportTest, RefusesAddressesOfOtherRanks) {
  UcxTransport::Options options;
  options.size = 2;
  auto zero = *UcxTransport::Create(options);
  options.rank = 1;
  auto one = *UcxTransport::Create(options);
  auto code = [&](const std::vector<std::string>& addresses) { return zero->Connect(addresses, Soon()).code(); };
  EXPECT_EQ(code({zero->Address()}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({one->Address(), zero->Address()}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({zero->Address(), "nonsense"}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({zero->Address(), ""}), absl::StatusCode::kInvalidArgument);
  Buffer nothing;
  EXPECT_EQ(zero->StartSend(1, MakeTag(0, 1), nothing).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(zero->Describe(1), "not connected");
}

TEST(UcxTransportTest, ConnectNamesTheMissingRank) {
  UcxTransport::Options options;
  options.size = 2;
  auto zero = *UcxTransport::Create(options);
  options.rank = 1;
  auto one = *UcxTransport::Create(options);
  const absl::Status status = zero->Connect({zero->Address(), one->Address()}, Deadline::After(absl::Milliseconds(50)));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "from rank 1")) << status;
}

TEST(UcxTransportTest, ChoosesSharedMemoryAlsoWhereOtherNodesMayBe) {
  for (bool other_nodes : {false, true}) {
    UcxTransport::Options options;
    options.other_nodes = other_nodes;
    const absl::Status status = RunThreads(2, options, [](UcxTransport& t) -> absl::Status {
      const std::string lanes = t.Describe(1 - t.rank());
      if (lanes != "posix/memory") return absl::InternalError(lanes);
      return t.Close(Soon());
    });
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(UcxTransportTest, KeepsTheUsersSettingsAndTheEnvironment) {
  auto variables = [] {
    std::set<std::string> all;
    for (char** variable = environ; *variable != nullptr; ++variable) all.insert(*variable);
    return all;
  };
  setenv("UCX_TLS", "tcp,self", 1);
  const std::set<std::string> before = variables();
  const absl::Status status = RunThreads(2, UcxTransport::Options(), [](UcxTransport& t) -> absl::Status {
    const std::string lanes = t.Describe(1 - t.rank());
    return lanes == "tcp/lo" ? absl::OkStatus() : absl::InternalError(lanes);
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(variables(), before);
  unsetenv("UCX_TLS");
}

TEST(UcxTransportTest, CutsNothingInFlightWhenARankFinishesEarly) {
  for (bool shared_memory : {true, false}) {
    for (int repetition = 0; repetition < 10; ++repetition) {
      UcxTransport::Options options;
      options.shared_memory = shared_memory;
      const absl::Status status = RunThreads(3, options, [](UcxTransport& t) -> absl::Status {
        // Rank 0 sends and is through; the others receive only after it has entered Close.
        std::vector<char> data(3 << 20, static_cast<char>(7));
        if (t.rank() == 0) {
          ADJOIN_ASSIGN_OR_RETURN(Handle one, t.StartSend(1, MakeTag(0, 1), BufferOf(data)));
          ADJOIN_ASSIGN_OR_RETURN(Handle two, t.StartSend(2, MakeTag(0, 1), BufferOf(data)));
          ADJOIN_RETURN_IF_ERROR(t.Wait(one, Soon()));
          ADJOIN_RETURN_IF_ERROR(t.Wait(two, Soon()));
        } else {
          std::vector<char> in(data.size());
          ADJOIN_ASSIGN_OR_RETURN(Handle receive, t.StartRecv(0, MakeTag(0, 1), BufferOf(in)));
          ADJOIN_RETURN_IF_ERROR(t.Wait(receive, Soon()));
          if (in != data) return absl::DataLossError("other bytes");
        }
        ADJOIN_RETURN_IF_ERROR(t.Close(Soon()));
        const auto late = t.StartSend(0, MakeTag(t.rank(), 2), Buffer());
        return absl::IsFailedPrecondition(late.status()) ? absl::OkStatus() : absl::InternalError("sent after Close");
      });
      EXPECT_TRUE(status.ok()) << status << " shared memory " << shared_memory << " repetition " << repetition;
    }
  }
}

TEST(UcxTransportTest, CloseGivesUpAtItsDeadlineAndDestructionNeverWaits) {
  for (bool shared_memory : {true, false}) {
    UcxTransport::Options options;
    options.shared_memory = shared_memory;
    std::atomic<bool> gave_up{false};
    const absl::Status status = RunThreads(2, options, [&](UcxTransport& t) -> absl::Status {
      if (t.rank() == 1) {
        while (!gave_up) std::this_thread::yield();
        return absl::OkStatus();
      }
      std::vector<char> memory(100);
      ADJOIN_RETURN_IF_ERROR(t.StartRecv(1, MakeTag(1, 1), BufferOf(memory)).status());  // stays open
      const absl::Status closed = t.Close(Deadline::After(absl::Milliseconds(20)));
      gave_up = true;
      return absl::IsDeadlineExceeded(closed) ? absl::OkStatus() : absl::InternalError(closed.ToString());
    });
    EXPECT_TRUE(status.ok()) << status;
  }
}

// A rank that aborts and ends without another call tells the others by its end, and however long its story is.
TEST(UcxTransportTest, TellsAnAbortAtTheLatestInItsDestructor) {
  for (const bool shared_memory : {true, false}) {
    UcxTransport::Options options;
    options.shared_memory = shared_memory;
    const absl::Status status = RunThreads(3, options, [](UcxTransport& t) -> absl::Status {
      std::vector<char> ready(1);
      if (t.rank() == 0) {
        for (int peer : {1, 2}) {
          ADJOIN_ASSIGN_OR_RETURN(Handle receive, t.StartRecv(peer, MakeTag(peer, 2), BufferOf(ready)));
          ADJOIN_RETURN_IF_ERROR(t.Wait(receive, Soon()));
        }
        t.Abort(absl::InternalError(absl::StrCat("too long a story ", std::string(2000, 'x'))));
        return absl::OkStatus();
      }
      ADJOIN_ASSIGN_OR_RETURN(Handle send, t.StartSend(0, MakeTag(t.rank(), 2), BufferOf(ready)));
      t.Wait(send, Soon()).IgnoreError();  // the abort may come before its end
      std::vector<char> in(8);
      auto receive = t.StartRecv(3 - t.rank(), MakeTag(3 - t.rank(), 1), BufferOf(in));
      const absl::Status told = receive.ok() ? t.Wait(*receive, Soon()) : receive.status();
      if (told.code() != absl::StatusCode::kInternal) return absl::UnknownError(told.ToString());
      if (!absl::StartsWith(told.message(), "rank 0: too long a story x")) return absl::UnknownError(told.ToString());
      return t.AbortedByPeer() ? absl::OkStatus() : absl::UnknownError("an echo that looks like a failure of its own");
    });
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(UcxTransportTest, KeepsTheMemoryOfASendThatWasGivenUp) {
  // Rank 1 makes no progress, so a long send cannot end; its memory must stay although its owner and its wait are gone.
  std::atomic<bool> done{false};
  std::weak_ptr<std::vector<char>> watched;
  const absl::Status status = RunThreads(2, UcxTransport::Options(), [&](UcxTransport& t) -> absl::Status {
    if (t.rank() == 1) {
      while (!done) std::this_thread::yield();
      return absl::OkStatus();
    }
    auto memory = std::make_shared<std::vector<char>>(size_t{64} << 20);
    watched = memory;
    Buffer buffer = BufferOf(*memory);
    buffer.keepalive = std::move(memory);
    absl::StatusOr<Handle> send = t.StartSend(1, MakeTag(0, 1), buffer);
    buffer.keepalive.reset();
    absl::Status waited = send.ok() ? t.Wait(*send, Deadline::After(absl::Milliseconds(20))) : send.status();
    const bool kept = !watched.expired();
    done = true;
    if (!absl::IsDeadlineExceeded(waited)) return absl::InternalError(waited.ToString());
    return kept ? absl::OkStatus() : absl::InternalError("the memory is gone while UCX may read it");
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(watched.expired());
}

// Calls `fn` with the address of every socket on which this process listens for TCP connections.
void ForListeningSockets(const std::function<void(const sockaddr_in&)>& fn) {
  for (int fd = 0; fd < 1024; ++fd) {
    int listens = 0;
    socklen_t bytes = sizeof(listens);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) != 0 || listens == 0) continue;
    sockaddr_in address = {};
    bytes = sizeof(address);
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) continue;
    if (address.sin_family == AF_INET) fn(address);
  }
}

TEST(UcxTransportTest, ListensOnTheGivenInterfaceAndPortsOnly) {
  UcxTransport::Options options;
  options.shared_memory = false;
  options.port_range = "42100-42163";
  std::atomic<int> found{0};
  const absl::Status status = RunThreads(2, options, [&](UcxTransport& t) -> absl::Status {
    absl::Status wrong;
    ForListeningSockets([&](const sockaddr_in& address) {
      ++found;
      const int port = ntohs(address.sin_port);
      if (port < 42100 || port > 42163) wrong = absl::InternalError(absl::StrCat("listens on port ", port));
      if (ntohl(address.sin_addr.s_addr) != INADDR_LOOPBACK) wrong = absl::InternalError("listens beyond loopback");
    });
    ADJOIN_RETURN_IF_ERROR(t.Close(Soon()));
    return wrong;
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GE(found, 2);
}

TEST(UcxTransportTest, DoesNotListenWithoutOtherNodes) {
  UcxTransport::Options options;
  options.other_nodes = false;
  std::atomic<int> found{0};
  const absl::Status status = RunThreads(2, options, [&](UcxTransport& t) -> absl::Status {
    ForListeningSockets([&](const sockaddr_in&) { ++found; });
    return t.Close(Soon());
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(found, 0);
}

}  // namespace
}  // namespace adjoin
