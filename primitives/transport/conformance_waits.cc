// The conformance tests of waits, which end by their operation, their deadline or an abort on any rank, and of Connect,
// Flush and Close.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/transport/buffer.h"
#include "primitives/transport/conformance_suite.h"
#include "primitives/transport/tag.h"
#include "primitives/transport/transport.h"

namespace adjoin {
namespace {

TEST_P(ConformanceTest, StaysUsableAfterADeadlineEndedAWait) {
  Run(2, [](Transport& t) -> absl::Status {
    ADJOIN_RETURN_IF_ERROR(PingPong(t, 1));
    const int other = 1 - t.rank();
    int64_t never = 5;
    for (absl::Duration patience : {absl::ZeroDuration(), absl::Milliseconds(1), absl::Milliseconds(30)}) {
      ADJOIN_ASSIGN_OR_RETURN(Handle receive, t.StartRecv(other, MakeTag(other, 9), BufferOf(never)));
      ADJOIN_RETURN_IF_ERROR(ExpectError(
          t.Wait(receive, Deadline::After(patience)), absl::StatusCode::kDeadlineExceeded,
          {"receive", absl::StrCat("at rank ", t.rank()), absl::StrCat("from rank ", other), "operator 9 forward"}));
      ADJOIN_RETURN_IF_ERROR(
          ExpectError(t.Wait(receive, Soon()), absl::StatusCode::kNotFound, {absl::StrCat(receive.id)}));
    }
    ADJOIN_RETURN_IF_ERROR(Expect(never == 5, "no message where none was sent"));
    ADJOIN_RETURN_IF_ERROR(PingPong(t, 3));  // both ranks have given up
    ADJOIN_RETURN_IF_ERROR(PingPong(t, 9));  // the receives given up do not take it
    return PingPong(t, 2);
  });
}

TEST_P(ConformanceTest, TestsWhetherAnOperationIsOver) {
  Run(2, [](Transport& t) -> absl::Status {
    const int other = 1 - t.rank();
    int64_t in = 0, out = 7;
    ADJOIN_ASSIGN_OR_RETURN(Handle receive, t.StartRecv(other, MakeTag(other, 0), BufferOf(in)));
    if (t.rank() == 0) {
      ADJOIN_RETURN_IF_ERROR(Expect(!t.Test(receive), "nothing received before the other rank was told to send"));
      ADJOIN_RETURN_IF_ERROR(SendNow(t, 1, MakeTag(0, 0), BufferOf(out)));
      const Deadline deadline = Soon();
      while (!t.Test(receive) && !deadline.Expired()) std::this_thread::yield();
      ADJOIN_RETURN_IF_ERROR(Expect(t.Test(receive) && in == 7, "the message, found by Test"));
      return t.Wait(receive, Deadline::After(absl::ZeroDuration()));
    }
    ADJOIN_RETURN_IF_ERROR(t.Wait(receive, Soon()));
    return SendNow(t, 0, MakeTag(1, 0), BufferOf(out));
  });
}

TEST_P(ConformanceTest, EndsWaitsNowAndLaterByAnAbortOfAnotherThread) {
  Run(2, [](Transport& t) -> absl::Status {
    ADJOIN_RETURN_IF_ERROR(PingPong(t, 1));
    const int other = 1;
    int64_t first = 0, second = 0;
    if (t.rank() == 1) {
      // Tells rank 0 that this rank has no waits left. The abort may come before the end of this send.
      ADJOIN_ASSIGN_OR_RETURN(Handle done, t.StartSend(0, MakeTag(1, 2), BufferOf(first)));
      t.Wait(done, Soon()).IgnoreError();
      return absl::OkStatus();
    }
    ADJOIN_RETURN_IF_ERROR(ReceiveNow(t, 1, MakeTag(1, 2), BufferOf(first)));
    ADJOIN_ASSIGN_OR_RETURN(Handle one, t.StartRecv(other, MakeTag(other, 5), BufferOf(first)));
    ADJOIN_ASSIGN_OR_RETURN(Handle two, t.StartRecv(other, MakeTag(other, 6), BufferOf(second)));
    std::thread aborter([&t] {
      t.Abort(absl::AbortedError("the first reason"));
      t.Abort(absl::InternalError("the second reason"));
    });
    const absl::Status status = t.Wait(one, Soon());
    aborter.join();
    const absl::StatusCode aborted = absl::StatusCode::kAborted;
    ADJOIN_RETURN_IF_ERROR(ExpectError(status, aborted, {"the first reason"}));
    ADJOIN_RETURN_IF_ERROR(Expect(t.Test(two), "an aborted operation is over"));
    ADJOIN_RETURN_IF_ERROR(ExpectError(t.Wait(two, Soon()), aborted, {"the first reason"}));
    ADJOIN_RETURN_IF_ERROR(
        ExpectError(t.StartSend(other, MakeTag(t.rank(), 7), BufferOf(first)).status(), aborted, {"first"}));
    return ExpectError(t.StartRecv(other, MakeTag(other, 7), BufferOf(first)).status(), aborted, {"first"});
  });
}

TEST_P(ConformanceTest, WakesASleepingWaitByAnAbort) {
  // The aborter comes when the wait has had time to fall asleep; the outcome does not depend on whether it has.
  Run(1, [](Transport& t) -> absl::Status {
    int64_t value = 0;
    ADJOIN_ASSIGN_OR_RETURN(Handle receive, t.StartRecv(0, MakeTag(0, 5), BufferOf(value)));
    ADJOIN_RETURN_IF_ERROR(
        ExpectError(t.Wait(receive, Deadline::After(absl::Milliseconds(20))), absl::StatusCode::kDeadlineExceeded, {}));
    ADJOIN_ASSIGN_OR_RETURN(Handle again, t.StartRecv(0, MakeTag(0, 5), BufferOf(value)));
    const Deadline when = Deadline::After(absl::Milliseconds(20));
    std::thread aborter([&] {
      while (!when.Expired()) std::this_thread::yield();
      t.Abort(absl::AbortedError("woken"));
    });
    const absl::Status status = t.Wait(again, Soon());
    aborter.join();
    return ExpectError(status, absl::StatusCode::kAborted, {"woken"});
  });
}

// Only rank 1 knows of a failure, and no rank sends anything: the others learn of the failure all the same.
TEST_P(ConformanceTest, EndsEveryRanksWaitsByAnAbort) {
  Run(4, [](Transport& t) -> absl::Status {
    const absl::StatusCode code = absl::StatusCode::kDataLoss;
    int64_t in = 0, ready = 1;
    if (t.rank() == 1) {
      for (int other : {0, 2, 3}) ADJOIN_RETURN_IF_ERROR(ReceiveNow(t, other, MakeTag(other, 2), BufferOf(in)));
      t.Abort(absl::DataLossError("conv1.x: this rank's disk is gone"));
      ADJOIN_RETURN_IF_ERROR(Expect(t.Disturbed() && !t.AbortedByPeer(), "to know that it aborted itself"));
      return ExpectError(t.StartRecv(0, MakeTag(0, 1), BufferOf(in)).status(), code, {"conv1.x: this rank's disk"});
    }
    const int next = (t.rank() + 1) % 4;
    ADJOIN_ASSIGN_OR_RETURN(Handle receive, t.StartRecv(next, MakeTag(next, 1), BufferOf(in)));
    // The abort may come before this send's own end is taken in.
    ADJOIN_ASSIGN_OR_RETURN(Handle send, t.StartSend(1, MakeTag(t.rank(), 2), BufferOf(ready)));
    t.Wait(send, Soon()).IgnoreError();
    const absl::Status status = t.rank() == 2 ? t.Wait(receive, Soon()) : t.WaitAny({&receive, 1}, Soon());
    ADJOIN_RETURN_IF_ERROR(ExpectError(status, code, {"rank 1: conv1.x: this rank's disk is gone"}));
    ADJOIN_RETURN_IF_ERROR(Expect(t.Disturbed() && t.AbortedByPeer(), "to know that rank 1 aborted this one"));
    return ExpectError(t.StartRecv(next, MakeTag(next, 3), BufferOf(in)).status(), code, {"rank 1: conv1.x"});
  });
}

TEST_P(ConformanceTest, WaitsForAnyOfSeveralOperations) {
  Run(3, [](Transport& t) -> absl::Status {
    if (t.rank() == 2) return absl::OkStatus();
    const int other = 1 - t.rank();
    int64_t out = 7, in = 0, never = 0;
    ADJOIN_ASSIGN_OR_RETURN(Handle receive, t.StartRecv(other, MakeTag(other, 1), BufferOf(in)));
    ADJOIN_ASSIGN_OR_RETURN(Handle silent, t.StartRecv(2, MakeTag(2, 1), BufferOf(never)));
    const Handle handles[] = {silent, receive};
    if (t.rank() == 0) {
      const absl::Status none = t.WaitAny(handles, Deadline::After(absl::Milliseconds(20)));
      ADJOIN_RETURN_IF_ERROR(ExpectError(none, absl::StatusCode::kDeadlineExceeded, {"2 operations"}));
    } else {
      ADJOIN_RETURN_IF_ERROR(t.WaitAny(handles, Soon()));
      ADJOIN_RETURN_IF_ERROR(Expect(t.Test(receive) && !t.Test(silent), "the message that has come"));
    }
    ADJOIN_RETURN_IF_ERROR(SendNow(t, other, MakeTag(t.rank(), 1), BufferOf(out)));
    ADJOIN_RETURN_IF_ERROR(t.WaitAny(handles, Soon()));
    ADJOIN_RETURN_IF_ERROR(t.Wait(receive, Soon()));
    ADJOIN_RETURN_IF_ERROR(Expect(in == 7, "the message"));
    const absl::Status given_up = t.Wait(silent, Deadline::After(absl::ZeroDuration()));
    if (!absl::IsDeadlineExceeded(given_up) && !absl::IsUnavailable(given_up)) return given_up;
    // Rank 0 aborts once it has this message: the abort may come before this send's own end is taken in.
    if (t.rank() == 1) {
      ADJOIN_ASSIGN_OR_RETURN(Handle last, t.StartSend(0, MakeTag(1, 2), BufferOf(out)));
      t.Wait(last, Soon()).IgnoreError();
      return absl::OkStatus();
    }
    ADJOIN_RETURN_IF_ERROR(ReceiveNow(t, 1, MakeTag(1, 2), BufferOf(in)));
    t.Abort(absl::CancelledError("enough"));
    return ExpectError(t.WaitAny(handles, Soon()), absl::StatusCode::kCancelled, {"enough"});
  });
}

TEST_P(ConformanceTest, ConnectsOnceAndOnlyToTheAddressesOfItsRanks) {
  auto ranks = GetParam().open(2), others = GetParam().open(3);
  if (absl::IsNotFound(ranks.status())) GTEST_SKIP() << ranks.status().message();
  ASSERT_TRUE(ranks.ok() && others.ok()) << ranks.status() << ", " << others.status();
  Transport& zero = *(*ranks)[0];
  const std::string own = zero.Address(), second = (*ranks)[1]->Address();
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {}, {own}, {own, second, second}, {second, own}, {own, own}, {own, (*others)[1]->Address()}, {own, "x"}}) {
    EXPECT_EQ(zero.Connect(wrong, Soon()).code(), absl::StatusCode::kInvalidArgument) << wrong.size() << " addresses";
  }
  Run(2, [](Transport& t) -> absl::Status {
    return ExpectError(t.Connect({"", ""}, Soon()), absl::StatusCode::kFailedPrecondition, {"already"});
  });
}

TEST_P(ConformanceTest, ClosesOnceEveryRankIsInClose) {
  std::atomic<int> closing{0};
  Run(3, [&closing](Transport& t) -> absl::Status {
    const int next = (t.rank() + 1) % 3, previous = (t.rank() + 2) % 3;
    int64_t out = t.rank(), in = -1;
    ADJOIN_RETURN_IF_ERROR(SendNow(t, next, MakeTag(t.rank(), 1), BufferOf(out)));
    ADJOIN_RETURN_IF_ERROR(t.Flush(Soon()));
    ADJOIN_RETURN_IF_ERROR(ReceiveNow(t, previous, MakeTag(previous, 1), BufferOf(in)));
    ADJOIN_RETURN_IF_ERROR(Expect(in == previous, "the message"));
    ++closing;
    ADJOIN_RETURN_IF_ERROR(t.Close(Soon()));
    ADJOIN_RETURN_IF_ERROR(Expect(closing == 3, "every rank in Close"));
    ADJOIN_RETURN_IF_ERROR(Expect(!t.Disturbed() && !t.AbortedByPeer(), "no failure in an orderly end"));
    return ExpectError(t.StartSend(next, MakeTag(t.rank(), 2), BufferOf(out)).status(),
                       absl::StatusCode::kFailedPrecondition, {"closed"});
  });
}

TEST_P(ConformanceTest, EndsFlushAndCloseByAnAbort) {
  Run(1, [](Transport& t) -> absl::Status {
    t.Abort(absl::AbortedError("enough"));
    ADJOIN_RETURN_IF_ERROR(ExpectError(t.Flush(Soon()), absl::StatusCode::kAborted, {"enough"}));
    return ExpectError(t.Close(Soon()), absl::StatusCode::kAborted, {"enough"});
  });
}

}  // namespace
}  // namespace adjoin
