// The whole terminal for one program, which gives it back as it was however it ends: at its end, at SIGINT, SIGTERM,
// SIGHUP, SIGQUIT, at a crash, and while SIGTSTP stops it.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<FullScreen> screen, FullScreen::Enter());
//   while (true) {
//     screen->Draw(text);
//     const FullScreen::Happened happened = screen->Wait(wake_fd, Deadline::After(absl::Seconds(60)));
//     if (happened.signal != 0) break;
//   }
//
// At most one at a time. One thread.
#ifndef ADJOIN_CLI_FULL_SCREEN_H_
#define ADJOIN_CLI_FULL_SCREEN_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/deadline.h"

namespace adjoin {

class FullScreen {
 public:
  // True where standard input and output are a terminal that can be drawn on.
  static bool Possible();
  // Errors: kFailedPrecondition (not Possible); kUnavailable (the system's reason).
  static absl::StatusOr<std::unique_ptr<FullScreen>> Enter();
  ~FullScreen();
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;

  // Shows these lines in place of what was there, in one write and without clearing first, so that nothing flickers.
  // Text that is shown already is not written again.
  void Draw(const std::string& text);

  struct Happened {
    std::string input;    // what the terminal sent
    bool woken = false;   // the descriptor is readable
    bool redraw = false;  // the terminal has another size, or was lent to another program
    bool gone = false;    // there is no terminal any more
    int signal = 0;       // that asks the program to end; 0: none
  };
  // Returns when something has happened, or at the deadline. A stop (Ctrl-Z) happens in here.
  Happened Wait(int wake_fd, Deadline deadline);

 private:
  FullScreen() = default;
  void Stop();
  bool TakeSignals(Happened& happened);

  std::string shown_;
};

}  // namespace adjoin

#endif  // ADJOIN_CLI_FULL_SCREEN_H_
