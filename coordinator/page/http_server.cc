#include "coordinator/page/http_server.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <sys/socket.h>

#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/caught.h"
#include "base/logging.h"
#include "base/status_macros.h"
#include "coordinator/page/server_tls.h"

namespace adjoin {
namespace {

constexpr size_t kMostFields = 100;  // headers, cookies, parts of a query
constexpr char kPriorities[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";
const std::string kNothing;

// One request, from its first line to the end of its answer. The thread of the connections owns it; a thread of the
// pool has it while the connection is suspended.
struct Exchange {
  HttpRequest request;
  HttpResponse response;
  OpenConnections::Connection* connection = nullptr;
  std::string kept_for;   // whom the answer counts for
  size_t kept_bytes = 0;  // and how much
  bool begun = false;
};

const std::string& Find(const std::map<std::string, std::string>& fields, absl::string_view name) {
  const auto found = fields.find(std::string(name));
  return found == fields.end() ? kNothing : found->second;
}

std::string PeerText(const sockaddr* address) {
  char host[INET6_ADDRSTRLEN] = "";
  if (address == nullptr) return "?";
  if (address->sa_family == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(address);
    inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host));
    return absl::StrCat(host, ":", ntohs(four->sin_port));
  }
  if (address->sa_family == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(address);
    inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host));
    return absl::StrCat("[", host, "]:", ntohs(six->sin6_port));
  }
  return "?";
}

// Clients can cause as many of libmicrohttpd's messages as they like.
void WriteLog(void*, const char*, va_list) {}

MHD_Result KeepField(void* fields, MHD_ValueKind kind, const char* name, const char* value) {
  auto& kept = *static_cast<std::map<std::string, std::string>*>(fields);
  if (name == nullptr || kept.size() >= kMostFields) return MHD_YES;
  const std::string key = kind == MHD_HEADER_KIND ? absl::AsciiStrToLower(name) : std::string(name);
  kept.emplace(key, value == nullptr ? "" : value);  // of two of one name the first counts
  return MHD_YES;
}

void ReadRequest(MHD_Connection* connection, Exchange& exchange) {
  HttpRequest& request = exchange.request;
  MHD_get_connection_values(connection, MHD_HEADER_KIND, &KeepField, &request.headers);
  MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, &KeepField, &request.query);
  MHD_get_connection_values(connection, MHD_COOKIE_KIND, &KeepField, &request.cookies);
  const auto* address = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  if (address != nullptr) request.peer = PeerText(address->client_addr);
  const auto* session = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
  request.encrypted = session != nullptr && session->tls_session != nullptr;
  if (request.encrypted) {
    ServerTls::ShownIn(static_cast<gnutls_session_t>(session->tls_session), &request.pem, &request.chain);
  }
}

// The body goes to libmicrohttpd, which frees it once it is sent.
MHD_Result Queue(MHD_Connection* connection, HttpResponse& response) {
  auto body = std::make_unique<std::string>(std::move(response.body));
  MHD_Response* made = MHD_create_response_from_buffer_with_free_callback_cls(
      body->size(), body->data(), [](void* sent) { delete static_cast<std::string*>(sent); }, body.get());
  if (made == nullptr) return MHD_NO;
  body.release();
  MHD_add_response_header(made, MHD_HTTP_HEADER_CONTENT_TYPE, response.type.c_str());
  for (const auto& [name, value] : response.headers) MHD_add_response_header(made, name.c_str(), value.c_str());
  const MHD_Result queued = MHD_queue_response(connection, static_cast<unsigned>(response.status), made);
  MHD_destroy_response(made);
  return queued;
}

HttpResponse Refusal(int status, const std::string& why) {
  HttpResponse response;
  response.status = status;
  response.body = why + "\n";
  response.headers = {{"X-Content-Type-Options", "nosniff"}, {"Cache-Control", "no-store"}};
  if (status == 503) response.headers.emplace_back("Retry-After", "2");
  return response;
}

HttpResponse TooLarge(const HttpServer::Options& options) {
  return Refusal(413, absl::StrCat("a request has at most ", options.body_bytes, " bytes beside its head"));
}

}  // namespace

struct HttpCallbacks {
  // Whether a request that tells its length is not too long.
  static bool MayCome(const HttpServer& server, MHD_Connection* connection) {
    const char* text = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    uint64_t bytes = 0;
    return text == nullptr || (absl::SimpleAtoi(text, &bytes) && bytes <= server.options_.body_bytes);
  }

  // Makes the answer, and counts it until Complete.
  static void Answer(HttpServer& server, Exchange& exchange) {
    absl::StatusOr<HttpResponse> made =
        Caught("the page", [&]() -> absl::StatusOr<HttpResponse> { return server.handler_(exchange.request); });
    if (!made.ok()) LogError(std::string(made.status().message()));
    exchange.response = made.ok() ? *std::move(made) : Refusal(500, "the coordinator's log tells what went wrong");
    const std::string& who = exchange.response.caller.empty() ? exchange.connection->address : exchange.response.caller;
    const size_t bytes = exchange.response.body.size();
    switch (server.open_->Keep(who, bytes)) {
      case OpenConnections::Kept::kYes:
        exchange.kept_for = who;
        exchange.kept_bytes = bytes;
        return;
      case OpenConnections::Kept::kCallerHasTooMany:
        exchange.response = Refusal(429, "earlier answers to you are not read yet: read them first");
        return;
      case OpenConnections::Kept::kAllHaveTooMany:
        exchange.response = Refusal(503, "as many answers as may be are not read yet: try again");
        return;
    }
  }

  // Called for a request's head, for each part of its body, at its end, and once its answer is made. An exception may
  // not pass through libmicrohttpd; MHD_NO closes the connection.
  static MHD_Result Handle(void* self, MHD_Connection* connection, const char* url, const char* method, const char*,
                           const char* upload, size_t* upload_bytes, void** state) {
    try {
      return HandleOrThrow(*static_cast<HttpServer*>(self), connection, url, method, upload, upload_bytes, state);
    } catch (...) {
      return MHD_NO;
    }
  }

  static MHD_Result HandleOrThrow(HttpServer& server, MHD_Connection* connection, const char* url, const char* method,
                                  const char* upload, size_t* upload_bytes, void** state) {
    auto* exchange = static_cast<Exchange*>(*state);
    if (exchange == nullptr) {
      exchange = new Exchange;
      *state = exchange;
      exchange->connection = ConnectionOf(connection);
      exchange->request.method = method;
      exchange->request.path = url;
      if (MayCome(server, connection)) return MHD_YES;
      exchange->response = TooLarge(server.options_);
      return Queue(connection, exchange->response);
    }
    if (*upload_bytes > 0) {
      std::string& body = exchange->request.body;
      if (body.size() + *upload_bytes > server.options_.body_bytes) return MHD_NO;  // closes the connection
      body.append(upload, *upload_bytes);
      *upload_bytes = 0;
      return MHD_YES;
    }
    if (exchange->begun) {
      server.open_->Sends(exchange->connection, exchange->response.body.size());
      return Queue(connection, exchange->response);
    }
    exchange->begun = true;
    ReadRequest(connection, *exchange);
    server.open_->Works(exchange->connection);
    MHD_suspend_connection(connection);
    const bool added = server.pool_->Add([&server, connection, exchange] {
      Answer(server, *exchange);
      MHD_resume_connection(connection);
    });
    if (!added) {
      exchange->response = Refusal(503, "the coordinator answers as many requests of browsers as it can: try again");
      MHD_resume_connection(connection);
    }
    return MHD_YES;
  }

  static OpenConnections::Connection* ConnectionOf(MHD_Connection* connection) {
    const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return static_cast<OpenConnections::Connection*>(info->socket_context);
  }

  static void Complete(void* self, MHD_Connection*, void** state, MHD_RequestTerminationCode) {
    const auto& server = *static_cast<HttpServer*>(self);
    const auto* exchange = static_cast<Exchange*>(*state);
    *state = nullptr;
    if (exchange == nullptr) return;
    if (exchange->kept_bytes > 0) server.open_->Forget(exchange->kept_for, exchange->kept_bytes);
    server.open_->AwaitsRequest(exchange->connection);
    delete exchange;
  }

  static MHD_Result MayOpen(void* self, const sockaddr* address, socklen_t) {
    return static_cast<HttpServer*>(self)->open_->MayOpen(address) ? MHD_YES : MHD_NO;
  }

  static void OpenOrClose(void* self, MHD_Connection* connection, void** context, MHD_ConnectionNotificationCode code) {
    OpenConnections& open = *static_cast<HttpServer*>(self)->open_;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
      // From libmicrohttpd 1.0 on, an answer lasts until the next question only.
      const int socket = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
      const auto* address = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
      *context = open.Opened(socket, address == nullptr ? nullptr : address->client_addr);
    } else {
      open.Closed(static_cast<OpenConnections::Connection*>(*context));
      *context = nullptr;
    }
  }
};

const std::string& HttpRequest::Header(absl::string_view name) const { return Find(headers, name); }
const std::string& HttpRequest::Query(absl::string_view name) const { return Find(query, name); }

HttpServer::HttpServer(const Options& options, Handler handler) : options_(options), handler_(std::move(handler)) {}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const Endpoint& listen, const TlsFiles& tls,
                                                              const Options& options, Handler handler) {
  std::unique_ptr<HttpServer> server(new HttpServer(options, std::move(handler)));
  ADJOIN_RETURN_IF_ERROR(server->Listen(listen, tls));
  return server;
}

absl::Status HttpServer::Listen(const Endpoint& listen, const TlsFiles& tls) {
  if (!tls.Given() && !listen.IsLoopback()) {
    return absl::InvalidArgumentError(absl::StrCat(
        listen.ToString(), " is not on loopback, so it needs TLS: give --tls-ca, --tls-cert and --tls-key"));
  }
  if (tls.Given()) {
    ADJOIN_ASSIGN_OR_RETURN(tls_, ServerTls::Open(tls));
  }
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  const int code = getaddrinfo(listen.host.c_str(), absl::StrCat(listen.port).c_str(), &hints, &found);
  if (code != 0) return absl::UnavailableError(absl::StrCat(listen.ToString(), ": ", gai_strerror(code)));
  const absl::Cleanup free_found = [&] { freeaddrinfo(found); };
  open_ = std::make_unique<OpenConnections>(options_.open);
  pool_ = std::make_unique<RequestPool>(options_.pool);
  unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME;
  if (found->ai_family == AF_INET6) flags |= MHD_USE_IPv6;
  if (tls_ != nullptr) flags |= MHD_USE_TLS;
  std::vector<MHD_OptionItem> items = {
      {MHD_OPTION_EXTERNAL_LOGGER, reinterpret_cast<intptr_t>(&WriteLog), nullptr},
      {MHD_OPTION_SOCK_ADDR, 0, found->ai_addr},
      {MHD_OPTION_CONNECTION_LIMIT, static_cast<intptr_t>(options_.connections), nullptr},
      {MHD_OPTION_CONNECTION_TIMEOUT, static_cast<intptr_t>(options_.idle_seconds), nullptr},
      {MHD_OPTION_CONNECTION_MEMORY_LIMIT, static_cast<intptr_t>(options_.header_bytes), nullptr},
      {MHD_OPTION_NOTIFY_CONNECTION, reinterpret_cast<intptr_t>(&HttpCallbacks::OpenOrClose), this},
      {MHD_OPTION_NOTIFY_COMPLETED, reinterpret_cast<intptr_t>(&HttpCallbacks::Complete), this}};
  if (tls_ != nullptr) {
    items.push_back({MHD_OPTION_HTTPS_CERT_CALLBACK, 0, reinterpret_cast<void*>(&ServerTls::Current)});
    items.push_back({MHD_OPTION_HTTPS_MEM_TRUST, 0, const_cast<char*>(tls_->authorities().c_str())});
    items.push_back({MHD_OPTION_HTTPS_PRIORITIES, 0, const_cast<char*>(kPriorities)});
  }
  items.push_back({MHD_OPTION_END, 0, nullptr});
  daemon_ = MHD_start_daemon(flags, static_cast<uint16_t>(listen.port), &HttpCallbacks::MayOpen, this,
                             &HttpCallbacks::Handle, this, MHD_OPTION_ARRAY, items.data(), MHD_OPTION_END);
  if (daemon_ == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", listen.ToString(),
                                               " for browsers: is the port in use, or the address another "
                                               "machine's?"));
  }
  const MHD_DaemonInfo* bound = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_BIND_PORT);
  port_ = bound == nullptr ? listen.port : bound->port;
  return absl::OkStatus();
}

// Suspended connections have to go on before the daemon may be stopped: the pool answers all that it has.
HttpServer::~HttpServer() {
  if (pool_ != nullptr) pool_->Stop();
  if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
}

}  // namespace adjoin
