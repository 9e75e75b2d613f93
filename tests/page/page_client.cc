#include "tests/page/page_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr char kSaid[] = "the page is at http";

absl::Status Broken(const std::string& what) { return absl::UnavailableError(what); }

absl::StatusOr<PageResponse> Parse(const std::string& text) {
  const size_t end = text.find("\r\n\r\n");
  PageResponse response;
  if (end == std::string::npos) return Broken(absl::StrCat("no HTTP answer: \"", text.substr(0, 100), "\""));
  const std::vector<std::string> lines = absl::StrSplit(text.substr(0, end), "\r\n");
  const std::vector<std::string> first = absl::StrSplit(lines[0], ' ');
  if (first.size() < 2 || !absl::SimpleAtoi(first[1], &response.status)) return Broken(lines[0]);
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::pair<std::string, std::string> field = absl::StrSplit(lines[i], absl::MaxSplits(": ", 1));
    response.headers[absl::AsciiStrToLower(field.first)] = field.second;
  }
  response.body = text.substr(end + 4);
  return response;
}

}  // namespace

UniqueFd PageClient::Connect(int port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval patience = {30, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return UniqueFd();
  return fd;
}

absl::StatusOr<std::string> PageClient::Exchange(int socket, const std::string& request) const {
  std::string answer;
  char buffer[65536];
  if (!tls_) {
    if (send(socket, request.data(), request.size(), MSG_NOSIGNAL) < 0) return Broken("the request cannot be sent");
    for (ssize_t got = 0; (got = recv(socket, buffer, sizeof(buffer), 0)) > 0;) answer.append(buffer, got);
    return answer;
  }
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
  SSL_CTX_load_verify_locations(context.get(), files_.ca.c_str(), nullptr);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  if (!files_.cert.empty()) {
    SSL_CTX_use_certificate_chain_file(context.get(), files_.cert.c_str());
    SSL_CTX_use_PrivateKey_file(context.get(), files_.key.c_str(), SSL_FILETYPE_PEM);
  }
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), &SSL_free);
  SSL_set_fd(ssl.get(), socket);
  SSL_set1_host(ssl.get(), "127.0.0.1");
  if (SSL_connect(ssl.get()) != 1) return Broken("no handshake of TLS");
  if (SSL_write(ssl.get(), request.data(), static_cast<int>(request.size())) <= 0) return Broken("nothing can be sent");
  for (int got = 0; (got = SSL_read(ssl.get(), buffer, sizeof(buffer))) > 0;) answer.append(buffer, got);
  return answer;
}

absl::StatusOr<PageResponse> PageClient::Send(const std::string& method, const std::string& path,
                                              const Headers& headers, const std::string& body) const {
  const UniqueFd socket = Connect(port_);
  if (socket.get() < 0) return Broken(absl::StrCat("nobody listens on port ", port_));
  std::string request = absl::StrCat(method, " ", path, " HTTP/1.1\r\nConnection: close\r\n");
  if (headers.find("Host") == headers.end()) absl::StrAppend(&request, "Host: 127.0.0.1:", port_, "\r\n");
  for (const auto& [name, value] : headers) absl::StrAppend(&request, name, ": ", value, "\r\n");
  if (!body.empty() || method == "POST") absl::StrAppend(&request, "Content-Length: ", body.size(), "\r\n");
  absl::StrAppend(&request, "\r\n", body);
  ADJOIN_ASSIGN_OR_RETURN(const std::string answer, Exchange(socket.get(), request));
  return Parse(answer);
}

int PagePortIn(const std::string& log) {
  const size_t said = log.find(kSaid);
  if (said == std::string::npos) return 0;
  const size_t colon = log.find("127.0.0.1:", said);
  return colon == std::string::npos ? 0 : std::atoi(log.c_str() + colon + 10);
}

}  // namespace adjoin
