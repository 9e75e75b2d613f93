#include "cli/full_screen.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace adjoin {
namespace {

// Another screen without a cursor, whose lines do not go on in the next one; and the first one again.
constexpr char kEnter[] = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
constexpr char kLeave[] = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";
// A terminal that knows them shows what is between them at once.
constexpr char kBeginFrame[] = "\x1b[?2026h\x1b[H";
constexpr char kEndFrame[] = "\x1b[J\x1b[?2026l";

constexpr std::array<int, 7> kHandled = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};
constexpr absl::Duration kSignalsSettle = absl::Milliseconds(200);
constexpr std::array<int, 5> kCrashes = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};

// Used by handlers of signals.
std::atomic<int> signal_pipe{-1};
termios saved_modes;
std::atomic<bool> on_screen{false};

std::array<struct sigaction, kHandled.size()> before_handled;
std::array<struct sigaction, kCrashes.size()> before_crashes;
int read_end = -1;

void WriteAll(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {
      pollfd out = {STDOUT_FILENO, POLLOUT, 0};
      if (poll(&out, 1, /*timeout=*/1000) > 0) continue;
    }
    if (written < 0) return;  // the terminal is gone, or does not read
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

// Safe in handlers of signals.
void LeaveScreen() {
  if (!on_screen.exchange(false)) return;
  WriteAll(absl::string_view(kLeave, sizeof(kLeave) - 1));
  tcsetattr(STDIN_FILENO, TCSANOW, &saved_modes);
}

void EnterScreen() {
  termios modes = saved_modes;
  modes.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  modes.c_cc[VMIN] = 1;
  modes.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSANOW, &modes);
  on_screen = true;
  WriteAll(kEnter);
}

void OnSignal(int signal) {
  const int error = errno;
  const auto byte = static_cast<unsigned char>(signal);
  [[maybe_unused]] const ssize_t written = write(signal_pipe, &byte, 1);
  errno = error;
}

void OnCrash(int signal) {
  LeaveScreen();
  raise(signal);  // the handler is gone: the process ends as it would have
}

void HandleSignals() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kHandled.size(); ++i) sigaction(kHandled[i], &action, &before_handled[i]);
  action.sa_handler = OnCrash;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  for (size_t i = 0; i < kCrashes.size(); ++i) sigaction(kCrashes[i], &action, &before_crashes[i]);
}

void HandleSignalsAsBefore() {
  for (size_t i = 0; i < kHandled.size(); ++i) sigaction(kHandled[i], &before_handled[i], nullptr);
  for (size_t i = 0; i < kCrashes.size(); ++i) sigaction(kCrashes[i], &before_crashes[i], nullptr);
}

}  // namespace

bool FullScreen::Possible() {
  const char* term = getenv("TERM");
  const bool draws = term != nullptr && *term != '\0' && strcmp(term, "dumb") != 0;
  return draws && isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
}

absl::StatusOr<std::unique_ptr<FullScreen>> FullScreen::Enter() {
  if (!Possible()) return absl::FailedPreconditionError("standard input and output are no terminal");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    return absl::UnavailableError(absl::StrCat("pipe: ", strerror(errno)));
  }
  if (tcgetattr(STDIN_FILENO, &saved_modes) != 0) {
    const int error = errno;
    close(ends[0]);
    close(ends[1]);
    return absl::UnavailableError(absl::StrCat("the terminal's modes: ", strerror(error)));
  }
  read_end = ends[0];
  signal_pipe = ends[1];
  HandleSignals();
  EnterScreen();
  return std::unique_ptr<FullScreen>(new FullScreen());
}

FullScreen::~FullScreen() {
  LeaveScreen();
  HandleSignalsAsBefore();
  close(signal_pipe.exchange(-1));
  close(read_end);
}

void FullScreen::Draw(const std::string& text) {
  if (text == shown_) return;
  shown_ = text;
  std::string frame = kBeginFrame;
  absl::string_view lines = text;
  if (!lines.empty() && lines.back() == '\n') lines.remove_suffix(1);
  bool first = true;
  for (const absl::string_view line : absl::StrSplit(lines, '\n')) {
    absl::StrAppend(&frame, first ? "" : "\r\n", line, "\x1b[K");  // the rest of the line is cleared
    first = false;
  }
  frame += kEndFrame;
  WriteAll(frame);
}

// Stops the process as Ctrl-Z does, with the terminal as it was before; returns when it goes on.
void FullScreen::Stop() {
  LeaveScreen();
  struct sigaction usual = {}, mine = {};
  usual.sa_handler = SIG_DFL;
  sigaction(SIGTSTP, &usual, &mine);
  raise(SIGTSTP);
  sigaction(SIGTSTP, &mine, nullptr);
}

// Takes the signals that have come; stops where one of them says so. Returns whether the screen has to be entered
// again.
bool FullScreen::TakeSignals(Happened& happened) {
  bool enter = false;
  unsigned char signal = 0;
  while (read(read_end, &signal, 1) == 1) {
    if (signal == SIGTSTP) Stop();
    // What stopped it, or ran meanwhile, may have left the terminal in any state.
    enter = enter || signal == SIGTSTP || signal == SIGCONT;
    if (signal == SIGTSTP || signal == SIGCONT || signal == SIGWINCH) {
      shown_.clear();
      happened.redraw = true;
    } else if (happened.signal == 0) {
      happened.signal = signal;
    }
  }
  return enter;
}

FullScreen::Happened FullScreen::Wait(int wake_fd, Deadline deadline) {
  Happened happened;
  pollfd fds[] = {{STDIN_FILENO, POLLIN, 0}, {read_end, POLLIN, 0}, {wake_fd, POLLIN, 0}};
  const auto milliseconds = std::clamp<int64_t>(absl::ToInt64Milliseconds(deadline.Remaining()), 0, 3600000);
  if (poll(fds, 3, static_cast<int>(milliseconds)) <= 0) return happened;
  happened.woken = fds[2].revents != 0;
  bool enter = fds[1].revents != 0 && TakeSignals(happened);
  // A process in the background that changes the terminal's modes is stopped, and one that is told to end must not be,
  // as after Ctrl-Z and `kill %1`. Another thread may still be handling the signal that tells it.
  if (enter && happened.signal == 0 && tcgetpgrp(STDIN_FILENO) != getpgrp()) {
    const Deadline settled = Deadline::After(kSignalsSettle);
    while (happened.signal == 0 && !settled.Expired()) {
      pollfd more = {read_end, POLLIN, 0};
      poll(&more, 1, static_cast<int>(absl::ToInt64Milliseconds(settled.Remaining())) + 1);
      TakeSignals(happened);
    }
  }
  if (happened.signal != 0) return happened;
  if (enter) EnterScreen();
  if (fds[0].revents != 0) {
    char bytes[256];
    const ssize_t got = read(STDIN_FILENO, bytes, sizeof(bytes));
    if (got > 0) happened.input.assign(bytes, static_cast<size_t>(got));
    happened.gone = got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN);
  }
  return happened;
}

}  // namespace adjoin
