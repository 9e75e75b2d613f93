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

MHD_Result Queue(MHD_Connection* connection, const HttpResponse& response) {
  MHD_Response* made = MHD_create_response_from_buffer(response.body.size(), const_cast<char*>(response.body.data()),
                                                       MHD_RESPMEM_MUST_COPY);
  if (made == nullptr) return MHD_NO;
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

  // Called for a request's head, for each part of its body, at its end, and once its answer is made.
  static MHD_Result Handle(void* self, MHD_Connection* connection, const char* url, const char* method, const char*,
                           const char* upload, size_t* upload_bytes, void** state) {
    auto& server = *static_cast<HttpServer*>(self);
    auto* exchange = static_cast<Exchange*>(*state);
    if (exchange == nullptr) {
      exchange = new Exchange;
      *state = exchange;
      exchange->request.method = method;
      exchange->request.path = url;
      return MayCome(server, connection) ? MHD_YES : Queue(connection, TooLarge(server.options_));
    }
    if (*upload_bytes > 0) {
      std::string& body = exchange->request.body;
      if (body.size() + *upload_bytes > server.options_.body_bytes) return MHD_NO;  // closes the connection
      body.append(upload, *upload_bytes);
      *upload_bytes = 0;
      return MHD_YES;
    }
    if (exchange->begun) return Queue(connection, exchange->response);
    exchange->begun = true;
    ReadRequest(connection, *exchange);
    MHD_suspend_connection(connection);
    const bool added = server.pool_->Add([&server, connection, exchange] {
      exchange->response = server.handler_(exchange->request);
      MHD_resume_connection(connection);
    });
    if (!added) {
      exchange->response = Refusal(503, "the coordinator answers as many requests of browsers as it can: try again");
      MHD_resume_connection(connection);
    }
    return MHD_YES;
  }

  static void Complete(void*, MHD_Connection*, void** state, MHD_RequestTerminationCode) {
    delete static_cast<Exchange*>(*state);
    *state = nullptr;
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
  pool_ = std::make_unique<RequestPool>(options_.pool);
  unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME;
  if (found->ai_family == AF_INET6) flags |= MHD_USE_IPv6;
  if (tls_ != nullptr) flags |= MHD_USE_TLS;
  std::vector<MHD_OptionItem> items = {
      {MHD_OPTION_EXTERNAL_LOGGER, reinterpret_cast<intptr_t>(&WriteLog), nullptr},
      {MHD_OPTION_SOCK_ADDR, 0, found->ai_addr},
      {MHD_OPTION_CONNECTION_LIMIT, static_cast<intptr_t>(options_.connections), nullptr},
      {MHD_OPTION_PER_IP_CONNECTION_LIMIT, static_cast<intptr_t>(options_.connections_per_address), nullptr},
      {MHD_OPTION_CONNECTION_TIMEOUT, static_cast<intptr_t>(options_.idle_seconds), nullptr},
      {MHD_OPTION_CONNECTION_MEMORY_LIMIT, static_cast<intptr_t>(options_.header_bytes), nullptr},
      {MHD_OPTION_NOTIFY_COMPLETED, reinterpret_cast<intptr_t>(&HttpCallbacks::Complete), nullptr}};
  if (tls_ != nullptr) {
    items.push_back({MHD_OPTION_HTTPS_CERT_CALLBACK, 0, reinterpret_cast<void*>(&ServerTls::Current)});
    items.push_back({MHD_OPTION_HTTPS_MEM_TRUST, 0, const_cast<char*>(tls_->authorities().c_str())});
    items.push_back({MHD_OPTION_HTTPS_PRIORITIES, 0, const_cast<char*>(kPriorities)});
  }
  items.push_back({MHD_OPTION_END, 0, nullptr});
  daemon_ = MHD_start_daemon(flags, static_cast<uint16_t>(listen.port), nullptr, nullptr, &HttpCallbacks::Handle, this,
                             MHD_OPTION_ARRAY, items.data(), MHD_OPTION_END);
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
