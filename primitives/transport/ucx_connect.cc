// The part of UcxTransport that comes before and after the messages.
#include <sys/eventfd.h>
#include <uct/api/uct.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/logging.h"
#include "base/status_macros.h"
#include "primitives/transport/barrier.h"
#include "primitives/transport/reserved_ids.h"
#include "primitives/transport/scoped_environment.h"
#include "primitives/transport/ucx_address.h"
#include "primitives/transport/ucx_transport.h"

namespace adjoin {
namespace {

// After those of the barriers.
constexpr int64_t kNoticeGeneration = 2;
constexpr int64_t kArenaGeneration = 3;

constexpr char kChannelsVariable[] = "ADJOIN_SHARED_CHANNELS";

Tag OwnTag(int source, int64_t generation) {
  return *Tag::Make({.communicator = kTransportCommunicator,
                     .op = kTransportOperator,
                     .generation = generation,
                     .direction = Direction::kControl,
                     .source = source,
                     .slot = 0});
}

Tag NoticeTag(int source) { return OwnTag(source, kNoticeGeneration); }

absl::Status Failed(const char* what, ucs_status_t status) {
  return absl::InternalError(absl::StrCat("UCX: ", what, ": ", ucs_status_string(status)));
}

// Receives the control messages that are left (credits of the last executions), which have no payload: UCX
// warns about every message that is left.
void DropControlMessages(ucp_worker_h worker, Deadline deadline) {
  Tag::Fields control;
  control.direction = Direction::kControl;
  const uint64_t bits = Tag::Make(control)->bits();  // kControl has all bits of its field
  ucp_tag_recv_info_t info;
  while (ucp_tag_message_h message = ucp_tag_probe_nb(worker, bits, bits, /*remove=*/1, &info)) {
    ucp_request_param_t param = {};
    const ucs_status_ptr_t request = ucp_tag_msg_recv_nbx(worker, nullptr, 0, message, &param);
    if (!UCS_PTR_IS_PTR(request)) continue;
    while (ucp_request_check_status(request) == UCS_INPROGRESS && !deadline.Expired()) ucp_worker_progress(worker);
    ucp_request_free(request);
  }
}

absl::Status CheckOptions(const UcxTransport::Options& options) {
  auto invalid = [](const auto&... text) {
    return absl::InvalidArgumentError(absl::StrCat("UcxTransport: ", text...));
  };
  if (options.size < 1) return invalid("size ", options.size, " is not positive");
  if (options.rank < 0 || options.rank >= options.size) {
    return invalid("rank ", options.rank, " is not in [0, ", options.size, ")");
  }
  if (!options.shared_memory && !options.other_nodes && options.size > 1) {
    return invalid("without shared memory and without other nodes there is no way to the other ranks");
  }
  if (options.keepalive < absl::Milliseconds(1)) return invalid("keepalive must be at least 1ms");
  const std::vector<std::string> ports = absl::StrSplit(options.port_range, '-');
  int first = 0, last = 0;
  const bool valid_ports = ports.size() == 2 && absl::SimpleAtoi(ports[0], &first) &&
                           absl::SimpleAtoi(ports[1], &last) && 0 < first && first <= last && last < 65536;
  if (!options.port_range.empty() && !valid_ports) {
    return invalid("port_range '", options.port_range, "' is not like 41000-41999");
  }
  return absl::OkStatus();
}

ScopedEnvironment::Variables Settings(const UcxTransport::Options& options) {
  ScopedEnvironment::Variables variables;
  const bool tcp = options.other_nodes || !options.shared_memory;
  variables.emplace_back("UCX_TLS", absl::StrCat(options.shared_memory ? "posix," : "", tcp ? "tcp," : "",
                                                 options.cuda ? "cuda_copy,cuda_ipc," : "", "self"));
  // One process reads CUDA memory of another only by rendezvous.
  if (!options.cuda) variables.emplace_back("UCX_RNDV_THRESH", "inf");
  variables.emplace_back("UCX_KEEPALIVE_INTERVAL", absl::StrCat(absl::ToInt64Microseconds(options.keepalive), "us"));
  if (options.shared_memory) {
    variables.emplace_back("UCX_POSIX_SEG_SIZE", "32K");  // 64K aborts inside UCX 1.13
    // Without it UCX would silently use TCP, because it could not tell that a peer died.
    variables.emplace_back("UCX_POSIX_ERROR_HANDLING", "y");
  }
  // A user who names UCX's transports may name TCP.
  if (tcp || std::getenv("UCX_TLS") != nullptr) {
    if (!options.net_devices.empty()) variables.emplace_back("UCX_NET_DEVICES", options.net_devices);
    if (!options.port_range.empty()) variables.emplace_back("UCX_TCP_PORT_RANGE", options.port_range);
  }
  return variables;
}

}  // namespace

absl::StatusOr<std::unique_ptr<UcxTransport>> UcxTransport::Create(const Options& options) {
  ADJOIN_RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<UcxTransport> transport(new UcxTransport(options));
  ADJOIN_RETURN_IF_ERROR(transport->Open());
  return transport;
}

absl::Status UcxTransport::Open() {
  abort_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (abort_fd_ < 0) return absl::InternalError("UcxTransport: eventfd failed");
  // UCX reads the transports' own variables as late as in ucp_worker_create.
  std::string chosen;
  ScopedEnvironment environment([&] {
    const char* value = std::getenv(kChannelsVariable);
    chosen = value == nullptr ? "" : value;
    return Settings(options_);
  });
  if (!chosen.empty() && chosen != "on" && chosen != "off") {
    return absl::InvalidArgumentError(absl::StrCat(kChannelsVariable, "=", chosen, ": neither \"on\" nor \"off\""));
  }
  const bool channels = options_.shared_channels && chosen != "off" && size() > 1;
  user_chose_lanes_ = !environment.Set("UCX_TLS");
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return Failed("ucp_config_read", status);
  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  status = ucp_init(&params, config, &context_);
  ucp_config_release(config);
  if (status != UCS_OK) return Failed("ucp_init", status);
  if (options_.cuda) ADJOIN_RETURN_IF_ERROR(CheckCuda());
  ucp_worker_params_t worker_params = {};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  status = ucp_worker_create(context_, &worker_params, &worker_);
  if (status != UCS_OK) return Failed("ucp_worker_create", status);
  status = ucp_worker_get_efd(worker_, &worker_fd_);
  if (status != UCS_OK) return Failed("ucp_worker_get_efd", status);
  ucp_address_t* worker_address = nullptr;
  size_t bytes = 0;
  status = ucp_worker_get_address(worker_, &worker_address, &bytes);
  if (status != UCS_OK) return Failed("ucp_worker_get_address", status);
  UcxAddress address;
  address.rank = rank();
  address.size = size();
  address.shared_memory = options_.shared_memory && !user_chose_lanes_;
  address.node = node_ = ThisNode();
  if (address.shared_memory && channels) ADJOIN_RETURN_IF_ERROR(OpenArena());
  if (shared_ != nullptr) address.arena = shared_->arena().Address();
  address.worker.assign(reinterpret_cast<const char*>(worker_address), bytes);
  ucp_worker_release_address(worker_, worker_address);
  address_ = EncodeUcxAddress(address);
  return absl::OkStatus();
}

bool UcxTransport::KnowsCuda() {
  uct_component_h* components = nullptr;
  unsigned number = 0;
  if (uct_query_components(&components, &number) != UCS_OK) return false;
  bool found = false;
  for (unsigned i = 0; i < number; ++i) {
    uct_component_attr_t attributes = {};
    attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME;
    if (uct_component_query(components[i], &attributes) != UCS_OK) continue;
    found = found || absl::StartsWith(attributes.name, "cuda");
  }
  uct_release_component_list(components);
  return found;
}

absl::Status UcxTransport::CheckCuda() const {
  ucp_context_attr_t attributes = {};
  attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  const ucs_status_t status = ucp_context_query(context_, &attributes);
  if (status != UCS_OK) return Failed("ucp_context_query", status);
  if ((attributes.memory_types & (uint64_t{1} << UCS_MEMORY_TYPE_CUDA)) != 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "UCX cannot move CUDA memory here: it was built without CUDA, or UCX_TLS leaves its transports out");
}

absl::Status UcxTransport::Connect(const std::vector<std::string>& addresses, Deadline deadline) {
  if (!peers_.empty()) return absl::FailedPreconditionError("UcxTransport: Connect was already called");
  if (addresses.size() != static_cast<size_t>(size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("UcxTransport: ", addresses.size(), " addresses for ", size(), " ranks"));
  }
  std::vector<UcxAddress> decoded;
  for (int r = 0; r < size(); ++r) {
    absl::StatusOr<UcxAddress> address = DecodeUcxAddress(addresses[r]);
    if (!address.ok()) return absl::InvalidArgumentError(absl::StrCat("address ", r, ": ", address.status().message()));
    if (address->rank != r || address->size != size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("address ", r, " of ", size(), " is that of rank ", address->rank, " of ", address->size));
    }
    decoded.push_back(*std::move(address));
  }
  peers_.resize(size());
  for (int r = 0; r < size(); ++r) ADJOIN_RETURN_IF_ERROR(OpenEndpoint(peers_[r], decoded[r].worker));
  ListenForNotices();
  ADJOIN_RETURN_IF_ERROR(Barrier(*this, Meeting::kConnect, deadline));
  for (int r = 0; r < size(); ++r) {
    const bool shares_memory = r != rank() && options_.shared_memory && !user_chose_lanes_ &&
                               decoded[r].shared_memory && decoded[r].node == node_;
    if (shares_memory) ADJOIN_RETURN_IF_ERROR(CheckLane(peers_[r]));
  }
  return shared_ != nullptr ? MapArenas(decoded, deadline) : absl::OkStatus();
}

absl::Status UcxTransport::OpenArena() {
  absl::StatusOr<std::unique_ptr<SharedArena>> arena = SharedArena::Create();
  if (arena.ok()) {
    shared_ = std::make_unique<SharedPeers>(*std::move(arena), size());
  } else {
    LogWarning(absl::StrCat("rank ", rank(),
                            " shares no memory with ranks of its node, and uses UCX for all messages: ",
                            std::string(arena.status().message())));
  }
  return absl::OkStatus();
}

absl::Status UcxTransport::MapArenas(const std::vector<UcxAddress>& addresses, Deadline deadline) {
  struct Exchange {
    int peer;
    char mapped = 0, heard = 0;
    Handle send = {}, receive = {};
  };
  auto exchanges = std::make_shared<std::deque<Exchange>>();
  const auto byte = [&](char* of) {
    Buffer buffer;
    buffer.data = of;
    buffer.bytes = 1;
    buffer.keepalive = exchanges;
    return buffer;
  };
  absl::Status failed;
  for (int r = 0; r < size(); ++r) {
    if (r == rank() || addresses[r].arena.empty() || addresses[r].node != node_) continue;
    Exchange& exchange = exchanges->emplace_back(Exchange{r});
    if (absl::Status mapped = shared_->Map(r, addresses[r].arena); mapped.ok()) {
      exchange.mapped = 1;
    } else if (failed.ok()) {
      failed = absl::Status(mapped.code(), absl::StrCat("rank ", r, ": ", mapped.message()));
    }
    ADJOIN_ASSIGN_OR_RETURN(exchange.receive, StartRecv(r, OwnTag(r, kArenaGeneration), byte(&exchange.heard)));
    const Operation send{true, rank(), r, OwnTag(rank(), kArenaGeneration), 1};
    ADJOIN_ASSIGN_OR_RETURN(exchange.send, PostSend(send, byte(&exchange.mapped)));  // it is no payload
  }
  if (!failed.ok()) {
    LogWarning(absl::StrCat("rank ", rank(), " cannot use the memory of a rank of its node, and uses UCX instead: ",
                            std::string(failed.message())));
  }
  for (Exchange& exchange : *exchanges) {
    ADJOIN_RETURN_IF_ERROR(Wait(exchange.receive, deadline));
    ADJOIN_RETURN_IF_ERROR(Wait(exchange.send, deadline));
    if (exchange.heard != 1) shared_->Forget(exchange.peer);
  }
  return absl::OkStatus();
}

absl::Status UcxTransport::OpenEndpoint(Peer& peer, const std::string& worker_address) {
  peer.transport = this;
  peer.rank = static_cast<int>(&peer - peers_.data());
  ucp_ep_params_t params = {};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(worker_address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &OnPeerFailure;
  params.err_handler.arg = &peer;
  const ucs_status_t status = ucp_ep_create(worker_, &params, &peer.endpoint);
  if (status == UCS_OK) return absl::OkStatus();
  peer.endpoint = nullptr;
  peer.failure = absl::UnavailableError(
      absl::StrCat("rank ", rank(), " cannot reach rank ", peer.rank, ": ", ucs_status_string(status)));
  return peer.failure;
}

absl::Status UcxTransport::CheckLane(const Peer& peer) const {
  const std::string lane = Describe(peer.rank);
  if (lane.find("posix") != std::string::npos) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "rank ", rank(), " and rank ", peer.rank, " are on one node and both use shared memory, but UCX sends by ", lane,
      ": check that /dev/shm is writable and large enough, or turn shared memory off"));
}

absl::Status UcxTransport::WaitForUcx(ucs_status_ptr_t request, const char* what, Deadline deadline) {
  if (request == nullptr) return absl::OkStatus();
  if (UCS_PTR_IS_ERR(request)) {
    return absl::UnavailableError(absl::StrCat(what, ": ", ucs_status_string(UCS_PTR_STATUS(request))));
  }
  absl::Status status;
  Patience patience;
  while (true) {
    const ucs_status_t done = ucp_request_check_status(request);
    if (done == UCS_OK) break;
    if (done != UCS_INPROGRESS) {
      status = absl::UnavailableError(absl::StrCat(what, ": ", ucs_status_string(done)));
    } else if (aborted_.load()) {
      status = AbortReason();
    } else if (deadline.Expired()) {
      status = absl::DeadlineExceededError(absl::StrCat("waited too long at rank ", rank(), " for: ", what));
    }
    if (!status.ok()) break;
    if (ucp_worker_progress(worker_) == 0) Idle(patience, deadline);
  }
  ucp_request_free(request);  // one that is in progress goes when UCX is through with it
  return status;
}

absl::Status UcxTransport::Flush(Deadline deadline) {
  if (aborted_.load()) {
    TellPeers();
    return AbortReason();
  }
  ucp_request_param_t param = {};
  return WaitForUcx(ucp_worker_flush_nbx(worker_, &param), "flush", deadline);
}

absl::Status UcxTransport::Close(Deadline deadline) {
  if (closed_) return absl::OkStatus();
  ADJOIN_RETURN_IF_ERROR(Flush(deadline));
  if (!peers_.empty()) ADJOIN_RETURN_IF_ERROR(Barrier(*this, Meeting::kClose, deadline));
  // All ranks are here, so all that was sent has been received: what is left is the last messages of the barrier.
  ADJOIN_RETURN_IF_ERROR(Flush(deadline));
  closed_ = true;
  return absl::OkStatus();
}

void UcxTransport::ListenForNotices() {
  notices_.resize(size());
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    NoticeReceive& receive = notices_[r];
    receive.transport = this;
    receive.peer = r;
    ucp_request_param_t param;
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE |
                         UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param.cb.recv = &OnNotice;
    param.user_data = &receive;
    param.memory_type = UCS_MEMORY_TYPE_HOST;
    const ucs_status_ptr_t ucx =
        ucp_tag_recv_nbx(worker_, &receive.notice, sizeof(Notice), NoticeTag(r).bits(), ~ucp_tag_t{0}, &param);
    if (!UCS_PTR_IS_PTR(ucx)) continue;  // the peer's silence will be noticed
    if (receive.done) {
      ucp_request_free(ucx);
    } else {
      receive.ucx = ucx;
    }
  }
}

void UcxTransport::OnNotice(void* ucx, ucs_status_t status, const ucp_tag_recv_info_t* info, void* receive) {
  NoticeReceive& r = *static_cast<NoticeReceive*>(receive);
  r.done = true;
  if (r.ucx != nullptr) ucp_request_free(std::exchange(r.ucx, nullptr));
  if (status != UCS_OK || info->length != sizeof(Notice)) return;  // cancelled
  r.notice.message[sizeof(r.notice.message) - 1] = '\0';
  if (!r.transport->aborted_.load()) r.transport->aborted_by_peer_.store(true);
  r.transport->Abort(absl::Status(static_cast<absl::StatusCode>(r.notice.code),
                                  absl::StrCat("rank ", r.peer, ": ", r.notice.message)));
}

void UcxTransport::TellPeers() {
  if (told_ || peers_.empty() || closed_ || aborted_by_peer_.load()) return;
  told_ = true;
  const absl::Status reason = AbortReason();
  own_notice_.code = static_cast<int32_t>(reason.code());
  const std::string message(reason.message());
  message.copy(own_notice_.message, sizeof(own_notice_.message) - 1);
  std::vector<ucs_status_ptr_t> sends;
  for (const Peer& peer : peers_) {
    if (peer.rank == rank() || peer.endpoint == nullptr || !peer.failure.ok()) continue;
    ucp_request_param_t param;
    param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.memory_type = UCS_MEMORY_TYPE_HOST;
    const ucs_status_ptr_t send =
        ucp_tag_send_nbx(peer.endpoint, &own_notice_, sizeof(Notice), NoticeTag(rank()).bits(), &param);
    if (UCS_PTR_IS_PTR(send)) sends.push_back(send);
  }
  // A peer that does not listen is not waited for: it finds out by itself.
  const Deadline deadline = Deadline::After(absl::Milliseconds(100));
  for (ucs_status_ptr_t send : sends) {
    while (ucp_request_check_status(send) == UCS_INPROGRESS && !deadline.Expired()) ucp_worker_progress(worker_);
    ucp_request_free(send);
  }
}

UcxTransport::~UcxTransport() {
  if (aborted_.load()) TellPeers();
  for (NoticeReceive& receive : notices_) {
    if (receive.ucx != nullptr) ucp_request_cancel(worker_, receive.ucx);
  }
  for (Request& request : requests_) {
    if (request.ucx != nullptr && !request.operation.send) ucp_request_cancel(worker_, request.ucx);
  }
  std::vector<ucs_status_ptr_t> closing;
  for (Peer& peer : peers_) {
    if (peer.endpoint == nullptr) continue;
    ucp_request_param_t param = {};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    ucs_status_ptr_t request = ucp_ep_close_nbx(peer.endpoint, &param);
    if (UCS_PTR_IS_PTR(request)) closing.push_back(request);
  }
  const Deadline deadline = Deadline::After(absl::Seconds(2));  // forced closing is local; this is for UCX's mistakes
  for (ucs_status_ptr_t request : closing) {
    while (ucp_request_check_status(request) == UCS_INPROGRESS && !deadline.Expired()) ucp_worker_progress(worker_);
    ucp_request_free(request);
  }
  if (worker_ != nullptr) {
    DropControlMessages(worker_, deadline);
    ucp_worker_destroy(worker_);
  }
  if (context_ != nullptr) ucp_cleanup(context_);
  if (abort_fd_ >= 0) close(abort_fd_);
}

// UCX tells the lanes only in print, e.g. "#   lane[0]:  2:posix/memory.0 md[1] -> md[1]/posix/sysdev[255] ...".
std::string UcxTransport::Describe(int peer) const {
  if (peer < 0 || peer >= static_cast<int>(peers_.size()) || peers_[peer].endpoint == nullptr) return "not connected";
  char* text = nullptr;
  size_t bytes = 0;
  FILE* stream = open_memstream(&text, &bytes);
  if (stream == nullptr) return "unknown";
  ucp_ep_print_info(peers_[peer].endpoint, stream);
  fclose(stream);
  const std::string info(text, bytes);
  std::free(text);
  std::string lanes;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(info, '\n'))) {
    const size_t lane = line.find("lane[");
    const size_t colon = lane == std::string::npos ? lane : line.find(':', line.find("]:", lane) + 2);
    if (colon == std::string::npos) continue;
    const std::string name = line.substr(colon + 1, line.find_first_of(". ", colon) - colon - 1);
    absl::StrAppend(&lanes, lanes.empty() ? "" : "+", name);
  }
  return lanes.empty() ? "unknown" : lanes;
}

}  // namespace adjoin
