// A small HTTP server for people's browsers, over libmicrohttpd: few threads, bounded everything.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<HttpServer> server,
//                           HttpServer::Start(endpoint, tls_files, {}, [&](const HttpRequest& request) {
//                             HttpResponse response;
//                             response.body = "hello";
//                             return response;
//                           }));
//   server->port();
//
// One thread has all connections, and a few others answer: a client that sends or reads slowly holds a connection and
// none of them. More connections than allowed are closed at once, more requests than wait are answered 503. Answers
// that are not read yet are bounded in all and for each caller, and so is the time of a request and of an answer.
#ifndef ADJOIN_COORDINATOR_PAGE_HTTP_SERVER_H_
#define ADJOIN_COORDINATOR_PAGE_HTTP_SERVER_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/endpoint.h"
#include "base/security/tls.h"
#include "coordinator/page/open_connections.h"
#include "coordinator/page/request_pool.h"

struct MHD_Daemon;

namespace adjoin {

struct HttpRequest {
  std::string method;                                          // "GET"
  std::string path;                                            // decoded, begins with '/'
  std::map<std::string, std::string> query, headers, cookies;  // names of headers in small letters
  std::string body;
  std::string peer;        // "10.0.0.7:51234"
  bool encrypted = false;  // over TLS
  std::string pem, chain;  // the client's certificate, where it has shown one, and what else it showed

  // "" where there is none.
  const std::string& Header(absl::string_view name) const;
  const std::string& Query(absl::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string caller;  // for whom the body counts until it is sent; empty: for the address
};

class ServerTls;

class HttpServer {
 public:
  struct Options {
    unsigned connections = 400;      // at once
    unsigned idle_seconds = 15;      // a connection that neither sends nor reads is closed
    size_t body_bytes = 16 << 10;    // of a request; more is answered 413
    size_t header_bytes = 32 << 10;  // of a request, in all; more is answered 431
    OpenConnections::Limits open;
    RequestPool::Options pool;
  };
  using Handler = std::function<HttpResponse(const HttpRequest&)>;

  // Without `tls`: plain HTTP, on loopback only. `handler` is called by several threads at once and outlives the
  // server; where it throws, the answer is 500. Errors: kInvalidArgument (plain text elsewhere), kUnavailable (it
  // cannot listen there), kNotFound, kPermissionDenied (a file of TLS).
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const Endpoint& listen, const TlsFiles& tls,
                                                           const Options& options, Handler handler);
  // Waits for the requests under way.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const { return port_; }

 private:
  friend struct HttpCallbacks;
  HttpServer(const Options& options, Handler handler);
  absl::Status Listen(const Endpoint& listen, const TlsFiles& tls);

  const Options options_;
  const Handler handler_;
  std::unique_ptr<ServerTls> tls_;  // null: plain
  std::unique_ptr<OpenConnections> open_;
  std::unique_ptr<RequestPool> pool_;
  MHD_Daemon* daemon_ = nullptr;
  int port_ = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PAGE_HTTP_SERVER_H_
