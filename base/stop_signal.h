// Orderly stop of a program on SIGTERM or SIGINT.
//
//   StopSignal stop;              // first thing in main: threads started later inherit the blocked signals
//   ... start the program's threads ...
//   stop.Wait();                  // or, in a program that ends by itself: if (stop.Came()) ..., now and then
//   ... stop them ...
#ifndef ADJOIN_BASE_STOP_SIGNAL_H_
#define ADJOIN_BASE_STOP_SIGNAL_H_

#include <signal.h>

namespace adjoin {

class StopSignal {
 public:
  StopSignal() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    signal(SIGPIPE, SIG_IGN);
  }
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // Returns the signal that came. It waits as long as the program is to run: the one wait without a deadline.
  int Wait() {
    int number = 0;
    while (sigwait(&signals_, &number) != 0) {
    }
    return number;
  }

  // True where a signal has come that no Wait has returned yet.
  bool Came() const {
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1;
  }

 private:
  sigset_t signals_;
};

}  // namespace adjoin

#endif  // ADJOIN_BASE_STOP_SIGNAL_H_
