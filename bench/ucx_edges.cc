// The least that the halo of a 1x8x512x512 image between two processes costs: bare UCX, edges packed by hand.
//
//   bazel-bin/bench/ucx_edges 60        # 60 s at most
//
// prints, as protocol.h says, ucx's "image_edges" (the patch lies in its ring of cells already) and "image_halo" (from
// a patch without a ring into a padded copy of it, whose memory is used again: the work of the tensor operator). UCX's
// settings are those that are fast on one machine; UCX_* variables of the environment win.
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/packed_halo.h"
#include "bench/protocol.h"

namespace adjoin::bench {
namespace {

void Check(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "ucx_edges: %s failed\n", what);
  std::exit(1);
}

void WriteAll(int socket, const void* data, size_t bytes) {
  Check(write(socket, data, bytes) == static_cast<ssize_t>(bytes), "writing to the other process");
}

void ReadAll(int socket, void* data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t more = read(socket, static_cast<char*>(data) + done, bytes - done);
    Check(more > 0, "reading from the other process");
    done += more;
  }
}

// One process's end of the connection of two. `socket` leads to the other.
class Connection {
 public:
  explicit Connection(int socket) {
    ucp_params_t params = {};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG;
    ucp_config_t* config = nullptr;
    Check(ucp_config_read(nullptr, nullptr, &config) == UCS_OK, "reading UCX's settings");
    Check(ucp_init(&params, config, &context_) == UCS_OK, "ucp_init");
    ucp_config_release(config);
    ucp_worker_params_t worker_params = {};
    worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker_params.thread_mode = UCS_THREAD_MODE_SINGLE;
    Check(ucp_worker_create(context_, &worker_params, &worker_) == UCS_OK, "ucp_worker_create");
    ucp_address_t* own = nullptr;
    size_t bytes = 0;
    Check(ucp_worker_get_address(worker_, &own, &bytes) == UCS_OK, "ucp_worker_get_address");
    WriteAll(socket, &bytes, sizeof bytes);
    WriteAll(socket, own, bytes);
    ucp_worker_release_address(worker_, own);
    ReadAll(socket, &bytes, sizeof bytes);
    std::vector<char> other(bytes);
    ReadAll(socket, other.data(), bytes);
    ucp_ep_params_t ep_params = {};
    ep_params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    ep_params.address = reinterpret_cast<const ucp_address_t*>(other.data());
    Check(ucp_ep_create(worker_, &ep_params, &endpoint_) == UCS_OK, "ucp_ep_create");
  }
  ~Connection() {
    ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void* StartReceive(void* data, size_t bytes) {
    const ucp_request_param_t none = {};
    return ucp_tag_recv_nbx(worker_, data, bytes, 1, ~uint64_t{0}, &none);
  }
  void* StartSend(const void* data, size_t bytes) {
    const ucp_request_param_t none = {};
    return ucp_tag_send_nbx(endpoint_, data, bytes, 1, &none);
  }
  // Until the process's alarm.
  void Wait(void* request) {
    if (request == nullptr) return;
    Check(!UCS_PTR_IS_ERR(request), "starting a message");
    ucs_status_t status = UCS_INPROGRESS;
    for (int idle = 0; (status = ucp_request_check_status(request)) == UCS_INPROGRESS;) {
      if (ucp_worker_progress(worker_) != 0) {
        idle = 0;
      } else if (++idle > 1000) {
        sched_yield();
      }
    }
    Check(status == UCS_OK, "a message");
    ucp_request_free(request);
  }
  // The larger of both processes' `time`; a barrier.
  double Slowest(double time) {
    double other = 0;
    void* receive = StartReceive(&other, sizeof other);
    Wait(StartSend(&time, sizeof time));
    Wait(receive);
    return std::max(time, other);
  }

 private:
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
};

void MeasureForm(Connection& connection, int rank, PackedHalo::Form form, const char* op) {
  PackedHalo halo(rank, GridOf(2), {kImageChannels, kImageSide / 2, kImageSide}, form);
  PackedHalo::Edge& edge = halo.edges()[0];
  const size_t bytes = edge.in.size() * sizeof(float);
  const auto run = [&](int64_t) {
    void* receive = connection.StartReceive(edge.in.data(), bytes);
    halo.Pack(edge);
    void* send = connection.StartSend(edge.out.data(), bytes);
    halo.CopyInterior();
    connection.Wait(receive);
    connection.Wait(send);
    halo.Unpack(edge);
  };
  run(0);
  Check(halo.edges().size() == 1 && halo.Correct(), "the halo: it is wrong; this");
  const std::vector<double> times =
      Measure(CountsFor(kImageRowBytes), run, [&](double time) { return connection.Slowest(time); });
  if (rank == 0) Report("ucx", op, 2, kImageRowBytes, times);
}

void RunRank(int rank, int socket, int seconds) {
  alarm(seconds);
  Connection connection(socket);
  MeasureForm(connection, rank, PackedHalo::kInPlace, "image_edges");
  MeasureForm(connection, rank, PackedHalo::kIntoPadded, "image_halo");
  connection.Slowest(0);
}

}  // namespace

int Main(int seconds) {
  setenv("UCX_TLS", "posix,self", 0);
  setenv("UCX_RNDV_THRESH", "inf", 0);
  setenv("UCX_POSIX_SEG_SIZE", "32K", 0);
  int sockets[2];
  Check(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "socketpair");
  const pid_t child = fork();  // before UCX starts, and without threads
  Check(child >= 0, "fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    RunRank(1, sockets[1], seconds);
    return 0;
  }
  RunRank(0, sockets[0], seconds);
  int status = 0;
  Check(waitpid(child, &status, 0) == child && status == 0, "the other process");
  return 0;
}

}  // namespace adjoin::bench

int main(int argc, char** argv) {
  const int seconds = argc == 2 ? std::atoi(argv[1]) : 0;
  if (seconds <= 0) {
    std::fprintf(stderr, "usage: ucx_edges SECONDS\n");
    return 2;
  }
  return adjoin::bench::Main(seconds);
}
