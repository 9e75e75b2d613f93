// How often daemons send heartbeats, and how long the coordinator waits for them, where there are few and where there
// are very many.
#include <algorithm>

#include "coordinator/decisions/coordination_fixture.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class HeartbeatsTest : public CoordinationTest {
 protected:
  HeartbeatsTest() {
    options_.heartbeats_per_second = 2;
    Restart();
  }
  double WelcomedWith() { return Taken(CoordinatorMessage::kWelcome).back().message.welcome().heartbeat_seconds(); }
  double ToldAfterABeat(ConnectionId of) {
    Say(of, Heartbeats());
    return Taken(CoordinatorMessage::kHeartbeatAck).back().message.heartbeat_ack().heartbeat_seconds();
  }
  // All with a first heartbeat, as daemons send it when they are welcomed.
  void ConnectDaemons(ConnectionId count) {
    for (ConnectionId i = 1; i <= count; ++i) Connect(i, absl::StrCat("worker-", i), 1);
    for (ConnectionId i = 1; i <= count; ++i) Say(i, Heartbeats());
  }
  std::string StateOf(const std::string& name) {
    for (const auto& worker : service_->Snapshot().workers) {
      if (worker.name == name) return worker.state;
    }
    return "forgotten";
  }
  // In steps: a coordinator that ticks seldom takes that for a pause of its own.
  void Wait(absl::Duration time) {
    const absl::Duration end = now_ + time;
    while (now_ < end) {
      now_ = std::min(end, now_ + absl::Milliseconds(100));
      Tick();
    }
  }
  std::string Notes() {
    std::string text;
    for (const Note& note : service_->TakeNotes()) text += note.text + "\n";
    return text;
  }
  // Fails unless the worker is `before` until just before `time` from now, and `then` after it.
  void ExpectChange(const std::string& name, absl::Duration time, const std::string& before, const std::string& then) {
    Wait(time - absl::Milliseconds(100));
    EXPECT_EQ(StateOf(name), before);
    Wait(absl::Milliseconds(100));
    EXPECT_EQ(StateOf(name), then);
  }
};

TEST_F(HeartbeatsTest, AreAsOftenAsTheOptionsSayWhereDaemonsAreFew) {
  ConnectDaemons(2);
  EXPECT_EQ(WelcomedWith(), 1);
  EXPECT_EQ(ToldAfterABeat(1), 1);
  ExpectChange("worker-1", absl::Seconds(3), "ready", "suspect");
  ExpectChange("worker-1", absl::Seconds(7), "suspect", "forgotten");
}

// Daemons of releases that know no other time than the welcome's go on with it.
TEST_F(HeartbeatsTest, AreFurtherApartWhereDaemonsAreMany) {
  ConnectDaemons(10);
  EXPECT_EQ(WelcomedWith(), 1);
  EXPECT_EQ(ToldAfterABeat(1), 5) << "10 daemons, 2 heartbeats a second";
}

// 5 seconds are 4 more than there would be: two heartbeats come 8 seconds later.
TEST_F(HeartbeatsTest, ThatAreFurtherApartAreWaitedForLonger) {
  ConnectDaemons(10);
  ExpectChange("worker-1", absl::Seconds(11), "ready", "suspect");
  ExpectChange("worker-1", absl::Seconds(7), "suspect", "forgotten");
}

TEST_F(HeartbeatsTest, AreNotWaitedForWhereTheConnectionHasEnded) {
  ConnectDaemons(10);
  Wait(absl::Seconds(2));
  service_->WorkerDisconnected(1, "gone");
  EXPECT_EQ(StateOf("worker-1"), "suspect");
  ExpectChange("worker-1", absl::Seconds(10), "suspect", "forgotten");
  EXPECT_EQ(StateOf("worker-2"), "suspect") << "after 12 seconds";
}

TEST_F(HeartbeatsTest, ComeCloserAgainWhenDaemonsHaveGone) {
  ConnectDaemons(10);
  EXPECT_EQ(ToldAfterABeat(1), 5);
  for (ConnectionId i = 3; i <= 10; ++i) service_->WorkerDisconnected(i, "gone");
  EXPECT_EQ(ToldAfterABeat(1), 1);
  Wait(absl::Seconds(10.9));
  EXPECT_EQ(StateOf("worker-1"), "ready") << "the acknowledgement may be late";
  EXPECT_EQ(ToldAfterABeat(1), 1);
  ExpectChange("worker-1", absl::Seconds(3), "ready", "suspect");
}

TEST_F(HeartbeatsTest, CountTheWorkersThatCeaseToSendThem) {
  ConnectDaemons(3);
  EXPECT_EQ(service_->Snapshot().workers_lost, 0);
  WorkerMessage stops = Heartbeats();
  stops.mutable_heartbeat()->set_draining(true);
  Say(1, stops);
  service_->WorkerDisconnected(1, "drained");
  Wait(absl::Seconds(60));
  EXPECT_EQ(StateOf("worker-1"), "forgotten");
  EXPECT_EQ(service_->Snapshot().workers_lost, 2) << "worker-1 was stopped";
  const std::string notes = Notes();
  EXPECT_THAT(notes, HasSubstr("worker worker-1 has drained and left: nothing heard for"));
  EXPECT_THAT(notes, Not(HasSubstr("worker worker-1 is lost")));
  for (const char* lost : {"worker worker-2 is lost: ", "worker worker-3 is lost: "}) {
    EXPECT_THAT(notes, HasSubstr(lost));
  }
  Connect(4, "worker-2", 1);
  Wait(absl::Seconds(60));
  EXPECT_EQ(service_->Snapshot().workers_lost, 3);
}

TEST_F(HeartbeatsTest, AWorkerThatIsGoneWithItsRanksHasNotJustLeft) {
  Connect(1, "worker-1", 1);
  Submit(Spec("runs", 1));
  WorkerMessage stops = Heartbeats();
  stops.mutable_heartbeat()->set_draining(true);
  Say(1, stops);
  Wait(absl::Seconds(60));
  EXPECT_THAT(Notes(), HasSubstr("worker worker-1 is lost while it drains: nothing heard for"));
}

TEST_F(HeartbeatsTest, TellHowFarApartProgressIsWhereRanksAreMany) {
  options_.heartbeats_per_second = 30;
  Restart();
  const auto told = [&] {
    Say(1, Heartbeats());
    return Taken(CoordinatorMessage::kHeartbeatAck).back().message.heartbeat_ack().progress_seconds();
  };
  Connect(1, "worker-1", 400);
  EXPECT_EQ(told(), 0);
  Submit(Spec("small", 3));
  EXPECT_EQ(told(), 0) << "3 ranks report 30 times a second by themselves";
  const std::string larger = Submit(Spec("larger", 57));
  EXPECT_EQ(told(), 2) << "60 ranks, 30 reports a second";
  Submit(Spec("large", 300));
  EXPECT_EQ(told(), 10) << "but each at least every 10 s";
  Submit(Spec("waits", 100));
  EXPECT_EQ(told(), 10) << "ranks that wait do not count";
  ASSERT_TRUE(service_->Cancel("large").ok());
  EXPECT_EQ(told(), 2);
  ASSERT_TRUE(service_->Cancel(larger).ok());
  EXPECT_EQ(told(), 0) << "3 ranks again: the others' slots are not free yet";
}

TEST_F(HeartbeatsTest, OfANewConnectionBeginAsTheWelcomeSays) {
  ConnectDaemons(10);
  service_->WorkerDisconnected(1, "gone");
  Connect(11, "worker-1", 1);
  EXPECT_EQ(WelcomedWith(), 1);
  ExpectChange("worker-1", absl::Seconds(3), "ready", "suspect");
}

// 16 seconds: a quarter of the time after which a job without a step is stuck, and 1.
TEST_F(HeartbeatsTest, AreNeverSoFarApartThatALeaseEndsOrAJobSeemsStuck) {
  options_.heartbeats_per_second = 0.01;
  Restart();
  ConnectDaemons(10);
  EXPECT_EQ(ToldAfterABeat(1), 16);
  const absl::Duration heard = now_;
  ExpectChange("worker-1", absl::Seconds(10 + 2 * 15), "suspect", "forgotten");
  EXPECT_LT(now_, heard + options_.lease);
}

}  // namespace
}  // namespace adjoin
