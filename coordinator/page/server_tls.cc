#include "coordinator/page/server_tls.h"

#include <gnutls/x509.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/logging.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr absl::Duration kLook = absl::Seconds(1);
constexpr unsigned kMostCertificates = 16;  // of a chain

std::atomic<ServerTls*> current{nullptr};

absl::StatusOr<std::string> ContentOf(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return absl::NotFoundError(absl::StrCat(path, " cannot be read"));
  return std::string((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
}

gnutls_datum_t Datum(const std::string& text) {
  return {reinterpret_cast<unsigned char*>(const_cast<char*>(text.data())), static_cast<unsigned int>(text.size())};
}

absl::Status Wrong(const std::string& file, int code) {
  return absl::InvalidArgumentError(absl::StrCat(file, ": ", gnutls_strerror(code)));
}

std::string PemOf(const gnutls_datum_t& der) {
  gnutls_datum_t text = {nullptr, 0};
  if (gnutls_pem_base64_encode2("CERTIFICATE", &der, &text) != GNUTLS_E_SUCCESS) return "";
  std::string pem(reinterpret_cast<const char*>(text.data), text.size);
  gnutls_free(text.data);
  return pem;
}

}  // namespace

struct ServerTls::Pair {
  ~Pair() {
    for (gnutls_pcert_st& certificate : certificates) gnutls_pcert_deinit(&certificate);
    if (key != nullptr) gnutls_privkey_deinit(key);
  }
  std::vector<gnutls_pcert_st> certificates;
  gnutls_privkey_t key = nullptr;
};

ServerTls::ServerTls(const TlsFiles& files) : files_(files) {}

absl::StatusOr<std::unique_ptr<ServerTls>> ServerTls::Open(const TlsFiles& files) {
  ADJOIN_RETURN_IF_ERROR(CheckKey(files.cert, files.key));
  std::unique_ptr<ServerTls> tls(new ServerTls(files));
  ADJOIN_ASSIGN_OR_RETURN(tls->authorities_, ContentOf(files.ca));
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<Pair> pair, tls->Read());
  {
    absl::MutexLock lock(&tls->mutex_);
    tls->pairs_.push_back(std::move(pair));
    tls->cert_stamp_ = FileStamp::Of(files.cert);
    tls->key_stamp_ = FileStamp::Of(files.key);
  }
  ServerTls* none = nullptr;
  if (!current.compare_exchange_strong(none, tls.get())) {
    return absl::AlreadyExistsError("this process serves another page over TLS");
  }
  return tls;
}

ServerTls::~ServerTls() {
  ServerTls* self = this;
  current.compare_exchange_strong(self, nullptr);
}

absl::StatusOr<std::unique_ptr<ServerTls::Pair>> ServerTls::Read() const {
  ADJOIN_ASSIGN_OR_RETURN(const std::string certificates, ContentOf(files_.cert));
  ADJOIN_ASSIGN_OR_RETURN(const std::string key, ContentOf(files_.key));
  auto pair = std::make_unique<Pair>();
  pair->certificates.resize(kMostCertificates);
  unsigned count = kMostCertificates;
  const gnutls_datum_t cert_text = Datum(certificates), key_text = Datum(key);
  int code = gnutls_pcert_list_import_x509_raw(pair->certificates.data(), &count, &cert_text, GNUTLS_X509_FMT_PEM, 0);
  pair->certificates.resize(code == GNUTLS_E_SUCCESS ? count : 0);
  if (code != GNUTLS_E_SUCCESS) return Wrong(files_.cert, code);
  code = gnutls_privkey_init(&pair->key);
  if (code == GNUTLS_E_SUCCESS) {
    code = gnutls_privkey_import_x509_raw(pair->key, &key_text, GNUTLS_X509_FMT_PEM, nullptr, 0);
  }
  if (code != GNUTLS_E_SUCCESS) return Wrong(files_.key, code);
  return pair;
}

const ServerTls::Pair* ServerTls::Newest() {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = absl::Now();
  if (now < looked_ || now - looked_ >= kLook) {
    looked_ = now;
    const FileStamp cert = FileStamp::Of(files_.cert), key = FileStamp::Of(files_.key);
    if (!(cert == cert_stamp_ && key == key_stamp_)) {
      absl::StatusOr<std::unique_ptr<Pair>> pair = Read();
      absl::Status fits = CheckKey(files_.cert, files_.key);
      if (pair.ok() && fits.ok()) {
        pairs_.push_back(*std::move(pair));
        cert_stamp_ = cert;
        key_stamp_ = key;
        LogInfo(absl::StrCat("the page shows the certificate in ", files_.cert, " from now on"));
      }
    }
  }
  return pairs_.back().get();
}

int ServerTls::Current(gnutls_session_t, const gnutls_datum_t*, int, const gnutls_pk_algorithm_t*, int,
                       gnutls_pcert_st** certificates, unsigned int* count, gnutls_privkey_t* key) {
  ServerTls* tls = current.load();
  if (tls == nullptr) return -1;
  const Pair* pair = tls->Newest();
  *certificates = const_cast<gnutls_pcert_st*>(pair->certificates.data());
  *count = static_cast<unsigned int>(pair->certificates.size());
  *key = pair->key;
  return 0;
}

void ServerTls::ShownIn(gnutls_session_t session, std::string* pem, std::string* chain) {
  unsigned int count = 0;
  const gnutls_datum_t* shown = gnutls_certificate_get_peers(session, &count);
  for (unsigned int i = 0; shown != nullptr && i < count && i < kMostCertificates; ++i) {
    const std::string text = PemOf(shown[i]);
    if (i == 0) *pem = text;
    *chain += text;
  }
}

}  // namespace adjoin
