// How waits end on every transport: by their operation, their deadline, or an abort on any rank.
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/transport/buffer.h"
#include "primitives/transport/conformance_ranks.h"
#include "primitives/transport/tag.h"
#include "primitives/transport/transport.h"
#include "primitives/transport/transport_ranks.h"

namespace adjoin {
namespace {

TEST_P(ConformanceTest, ADeadlineEndsAWaitAndTheTransportStaysUsable) {
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

TEST_P(ConformanceTest, TestSaysWhenAnOperationIsOver) {
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

TEST_P(ConformanceTest, AbortFromAnotherThreadEndsWaitsNowAndLater) {
  Run(2, [](Transport& t) -> absl::Status {
    ADJOIN_RETURN_IF_ERROR(PingPong(t, 1));
    const int other = 1;
    int64_t first = 0, second = 0;
    if (t.rank() == 1) {
      // That it is done with its own waits. The abort may come before the end of this send.
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

TEST_P(ConformanceTest, AbortWakesASleepingWait) {
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

// Nobody but rank 1 knows of a failure, and nobody sends anything: the others learn of it all the same.
TEST_P(ConformanceTest, AnAbortEndsEveryRanksWaits) {
  Run(4, [](Transport& t) -> absl::Status {
    const absl::StatusCode code = absl::StatusCode::kDataLoss;
    int64_t in = 0, ready = 1;
    if (t.rank() == 1) {
      for (int other : {0, 2, 3}) ADJOIN_RETURN_IF_ERROR(ReceiveNow(t, other, MakeTag(other, 2), BufferOf(in)));
      t.Abort(absl::DataLossError("conv1.x: this rank's disk is gone"));
      return ExpectError(t.StartRecv(0, MakeTag(0, 1), BufferOf(in)).status(), code, {"conv1.x: this rank's disk"});
    }
    const int next = (t.rank() + 1) % 4;
    ADJOIN_ASSIGN_OR_RETURN(Handle receive, t.StartRecv(next, MakeTag(next, 1), BufferOf(in)));
    // The abort may come before this send's own end is taken in.
    ADJOIN_ASSIGN_OR_RETURN(Handle send, t.StartSend(1, MakeTag(t.rank(), 2), BufferOf(ready)));
    t.Wait(send, Soon()).IgnoreError();
    const absl::Status status = t.rank() == 2 ? t.Wait(receive, Soon()) : t.WaitAny({&receive, 1}, Soon());
    ADJOIN_RETURN_IF_ERROR(ExpectError(status, code, {"rank 1: conv1.x: this rank's disk is gone"}));
    return ExpectError(t.StartRecv(next, MakeTag(next, 3), BufferOf(in)).status(), code, {"rank 1: conv1.x"});
  });
}

TEST_P(ConformanceTest, WaitAnyReturnsWhenOneIsOver) {
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
    // The other one is done with its waits before this one aborts.
    if (t.rank() == 1) return SendNow(t, 0, MakeTag(1, 2), BufferOf(out));
    ADJOIN_RETURN_IF_ERROR(ReceiveNow(t, 1, MakeTag(1, 2), BufferOf(in)));
    t.Abort(absl::CancelledError("enough"));
    return ExpectError(t.WaitAny(handles, Soon()), absl::StatusCode::kCancelled, {"enough"});
  });
}

ADJOIN_INSTANTIATE_CONFORMANCE_TESTS

}  // namespace
}  // namespace adjoin
