#include "base/security/certificate.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/logging.h"
#include "base/security/make_certs.h"
#include "base/security/openssl_handles.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr absl::Duration kPoll = absl::Seconds(1);
constexpr size_t kMostChain = 16;
constexpr size_t kMostAuthorities = 1000;

// A peer may have written anything into its name: control characters are escaped, and it is cut short.
std::string NameText(const X509_NAME* name) {
  BioPtr bio(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_RFC2253);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  constexpr long kMost = 120;
  return size > kMost ? absl::StrCat(absl::string_view(text, kMost), "...") : std::string(text, size);
}

std::string Shown(absl::Time time) { return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone()); }

absl::StatusOr<std::string> ReadText(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  if (stream) text << stream.rdbuf();
  if (!stream) return absl::NotFoundError(absl::StrCat(file, " cannot be read: ", strerror(errno)));
  return text.str();
}

std::vector<std::string> UrisOf(X509* certificate) {
  std::vector<std::string> uris;
  NamesPtr names(static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* uri = name->d.uniformResourceIdentifier;
    uris.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)), ASN1_STRING_length(uri));
  }
  return uris;
}

Certificate Describe(X509* leaf) {
  Certificate certificate;
  certificate.subject = NameText(X509_get_subject_name(leaf));
  certificate.uris = UrisOf(leaf);
  certificate.serial = SerialOf(leaf);
  certificate.not_before = TimeOf(X509_get0_notBefore(leaf));
  certificate.not_after = TimeOf(X509_get0_notAfter(leaf));
  return certificate;
}

// Returns what is wrong with the certificate at which the verification stopped, and what would be right.
std::string Reason(X509_STORE_CTX* context, const std::string& authorities, CertificatePurpose purpose,
                   absl::Time now) {
  X509* at = X509_STORE_CTX_get_current_cert(context);
  const int error = X509_STORE_CTX_get_error(context);
  const std::string of =
      X509_STORE_CTX_get_error_depth(context) == 0
          ? ""
          : absl::StrCat(": its authority's certificate \"", NameText(X509_get_subject_name(at)), "\"");
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return absl::StrCat(of, " expired on ", Shown(TimeOf(X509_get0_notAfter(at))), "; ", kMakeCerts,
                          " makes a new one");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return absl::StrCat(of, " is not valid before ", Shown(TimeOf(X509_get0_notBefore(at))), ", and here it is ",
                          Shown(now), ": is one of the two clocks wrong?");
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return absl::StrCat(" was signed by another authority, \"", NameText(X509_get_issuer_name(at)),
                          "\"; trusted here is the key of ", authorities, " in --tls-ca");
    case X509_V_ERR_INVALID_PURPOSE:
      return purpose == CertificatePurpose::kClient
                 ? absl::StrCat(of, " is not for clients: it needs extendedKeyUsage clientAuth, as of ", kMakeCerts,
                                " --client")
                 : absl::StrCat(of, " is not for servers: it needs extendedKeyUsage serverAuth, as of ", kMakeCerts,
                                " --server");
    default: return absl::StrCat(of, " is refused: ", X509_verify_cert_error_string(error));
  }
}

// Returns how many certificates a PEM text has, also those that cannot be parsed.
size_t CountCertificates(absl::string_view pem) {
  size_t count = 0;
  for (const absl::string_view line : absl::StrSplit(pem, '\n')) {
    for (const absl::string_view kind : {"CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"}) {
      if (absl::StartsWith(line, absl::StrCat("-----BEGIN ", kind, "-----"))) ++count;
    }
  }
  return count;
}

// What an authority has revoked, and the authority's certificate.
struct RevocationList {
  CrlPtr list;
  X509* authority = nullptr;
};

bool HasSigned(X509* authority, X509_CRL* list) {
  const bool has = X509_NAME_cmp(X509_CRL_get_issuer(list), X509_get_subject_name(authority)) == 0 &&
                   X509_CRL_verify(list, X509_get0_pubkey(authority)) == 1;
  ERR_clear_error();
  return has;
}

// What messages say of a file.
constexpr char kDamagedList[] =
    " holds a revocation list that cannot be read, as it is damaged or cut off: what it revokes is not known";
std::string UnsignedList(const X509_CRL* list) {
  return absl::StrCat(" holds a revocation list of \"", NameText(X509_CRL_get_issuer(list)),
                      "\", which none of its certificates has signed");
}

// Refuses a chain, the peer's certificate first, of which an authority has revoked a certificate.
absl::Status CheckRevocations(const std::vector<RevocationList>& lists, STACK_OF(X509) * chain) {
  for (int i = 0; i + 1 < sk_X509_num(chain); ++i) {
    X509* const certificate = sk_X509_value(chain, i);
    for (const RevocationList& revoked : lists) {
      X509_REVOKED* entry = nullptr;
      if (!IsSameAuthority(revoked.authority, sk_X509_value(chain, i + 1)) ||
          X509_CRL_get0_by_cert(revoked.list.get(), &entry, certificate) != 1) {
        continue;
      }
      return absl::UnauthenticatedError(absl::StrCat("certificate \"", NameText(X509_get_subject_name(certificate)),
                                                     "\" was revoked on ",
                                                     Shown(TimeOf(X509_REVOKED_get0_revocationDate(entry))),
                                                     " by its authority; ", kMakeCerts, " makes a new one"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

FileStamp FileStamp::Of(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return {};
  return {info.st_mtim.tv_sec * int64_t{1000000000} + info.st_mtim.tv_nsec, info.st_size,
          static_cast<int64_t>(info.st_ino)};
}

struct Authorities::Store {
  X509_STORE* store = X509_STORE_new();
  std::vector<X509Ptr> authorities;
  std::vector<RevocationList> revocations;  // by some of them
  std::string names, revoked;               // for messages
  std::string pem;                          // of both
  ~Store() { X509_STORE_free(store); }
};

Authorities::~Authorities() = default;

absl::StatusOr<std::shared_ptr<const Authorities::Store>> Authorities::Read(const std::string& file) {
  ADJOIN_ASSIGN_OR_RETURN(const std::string pem, ReadText(file));
  // A damaged list also hides certificates that stand behind it.
  RevocationLists lists = ParseRevocationLists(pem);
  if (lists.damaged > 0) return absl::InvalidArgumentError(absl::StrCat(file, kDamagedList));
  auto store = std::make_shared<Store>();
  store->authorities = ParsePem(pem, kMostAuthorities);
  if (store->authorities.empty())
    return absl::InvalidArgumentError(absl::StrCat(file, " holds no certificate in PEM format"));
  if (const size_t all = CountCertificates(pem); all != store->authorities.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, " holds ", all, " certificates, of which ", store->authorities.size(),
        " can be read: the next one is damaged or cut off, is a TRUSTED CERTIFICATE, or there are more than ",
        kMostAuthorities));
  }
  std::vector<std::string> names;
  for (const X509Ptr& certificate : store->authorities) {
    X509_STORE_add_cert(store->store, certificate.get());
    names.push_back(absl::StrCat("\"", NameText(X509_get_subject_name(certificate.get())), "\""));
    store->pem += PemOf(certificate.get());
  }
  store->names = absl::StrJoin(names, ", ");
  int revoked = 0;
  for (CrlPtr& list : lists.whole) {
    const auto authority =
        std::find_if(store->authorities.begin(), store->authorities.end(),
                     [&](const X509Ptr& certificate) { return HasSigned(certificate.get(), list.get()); });
    if (authority == store->authorities.end()) {
      return absl::InvalidArgumentError(absl::StrCat(file, UnsignedList(list.get())));
    }
    revoked += std::max(0, sk_X509_REVOKED_num(X509_CRL_get_REVOKED(list.get())));
    store->pem += PemOf(list.get());
    store->revocations.push_back({std::move(list), authority->get()});
  }
  if (revoked > 0) store->revoked = absl::StrCat("; revoked by them: ", revoked, " certificates");
  return store;
}

absl::StatusOr<std::string> ListsOf(const std::string& authority, const std::string& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error) && !error) return "";
  ADJOIN_ASSIGN_OR_RETURN(const std::string pem, ReadText(file));
  const std::vector<X509Ptr> signer = ParsePem(authority, 1), others = ParsePem(pem, kMostAuthorities);
  const RevocationLists lists = ParseRevocationLists(pem);
  if (lists.damaged > 0) return absl::InvalidArgumentError(absl::StrCat(file, kDamagedList));
  std::string own;
  for (const CrlPtr& list : lists.whole) {
    const auto has_signed = [&](const X509Ptr& certificate) { return HasSigned(certificate.get(), list.get()); };
    if (std::any_of(signer.begin(), signer.end(), has_signed)) {
      own += PemOf(list.get());
    } else if (std::none_of(others.begin(), others.end(), has_signed)) {
      return absl::InvalidArgumentError(absl::StrCat(file, UnsignedList(list.get())));
    }
  }
  return own;
}

absl::StatusOr<std::unique_ptr<Authorities>> Authorities::Open(const std::string& file) {
  std::unique_ptr<Authorities> authorities(new Authorities(file));
  const FileStamp stamp = FileStamp::Of(file);
  ADJOIN_ASSIGN_OR_RETURN(auto store, Read(file));
  absl::MutexLock lock(&authorities->mutex_);
  authorities->stamp_ = stamp;
  authorities->store_ = std::move(store);
  return authorities;
}

std::shared_ptr<const Authorities::Store> Authorities::Current() {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = absl::Now();
  if (now < looked_ || now - looked_ >= kPoll) {
    looked_ = now;
    const FileStamp stamp = FileStamp::Of(file_);
    if (!(stamp == stamp_)) {
      stamp_ = stamp;
      absl::StatusOr<std::shared_ptr<const Store>> read = Read(file_);
      if (read.ok()) {
        store_ = *std::move(read);
        ++generation_;
        LogInfo(absl::StrCat("trusted authorities read again from ", file_, ": ", store_->names, store_->revoked));
      } else {
        LogError(absl::StrCat("trusted authorities stay as they were: ", std::string(read.status().message())));
      }
    }
  }
  return store_;
}

std::string Authorities::Pem() { return Current()->pem; }

uint64_t Authorities::generation() {
  Current();
  absl::MutexLock lock(&mutex_);
  return generation_;
}

absl::StatusOr<Certificate> Authorities::Check(const std::string& pem, const std::string& chain,
                                               CertificatePurpose purpose, std::optional<absl::Time> now) {
  const std::shared_ptr<const Store> store = Current();
  const std::vector<X509Ptr> leaf = ParsePem(pem, 1);
  if (leaf.empty()) return absl::UnauthenticatedError("the certificate cannot be parsed");
  const std::vector<X509Ptr> others = ParsePem(chain, kMostChain);
  std::unique_ptr<STACK_OF(X509), StackFree> untrusted(sk_X509_new_null());
  for (const X509Ptr& other : others) sk_X509_push(untrusted.get(), other.get());

  Certificate certificate = Describe(leaf[0].get());
  ContextPtr context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store->store, leaf[0].get(), untrusted.get());
  X509_STORE_CTX_set_purpose(
      context.get(), purpose == CertificatePurpose::kClient ? X509_PURPOSE_SSL_CLIENT : X509_PURPOSE_SSL_SERVER);
  if (now.has_value()) {
    X509_STORE_CTX_set_time(context.get(), 0, absl::ToTimeT(*now));
  } else {
    X509_STORE_CTX_set_flags(context.get(), X509_V_FLAG_NO_CHECK_TIME);
  }
  // The default of TLS itself: no keys or hashes below 112 bits of security.
  X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(context.get()), 2);
  const bool good = X509_verify_cert(context.get()) == 1;
  ERR_clear_error();
  if (!good) {
    return absl::UnauthenticatedError(
        absl::StrCat("certificate \"", certificate.subject, "\"",
                     Reason(context.get(), store->names, purpose, now.value_or(absl::Now()))));
  }
  ADJOIN_RETURN_IF_ERROR(CheckRevocations(store->revocations, X509_STORE_CTX_get0_chain(context.get())));
  return certificate;
}

absl::StatusOr<Certificate> ReadCertificate(const std::string& pem) {
  const std::vector<X509Ptr> leaf = ParsePem(pem, 1);
  if (leaf.empty()) return absl::UnauthenticatedError("the certificate cannot be parsed");
  return Describe(leaf[0].get());
}

absl::Status CheckHost(const std::string& pem, const std::string& host) {
  const std::vector<X509Ptr> leaf = ParsePem(pem, 1);
  if (leaf.empty()) return absl::UnauthenticatedError("the certificate cannot be parsed");
  unsigned char address[sizeof(in6_addr)];
  const bool is_address =
      inet_pton(AF_INET, host.c_str(), address) == 1 || inet_pton(AF_INET6, host.c_str(), address) == 1;
  const int match = is_address ? X509_check_ip_asc(leaf[0].get(), host.c_str(), 0)
                               : X509_check_host(leaf[0].get(), host.data(), host.size(), 0, nullptr);
  if (match == 1) return absl::OkStatus();
  return absl::UnauthenticatedError(absl::StrCat("certificate \"", NameText(X509_get_subject_name(leaf[0].get())),
                                                 "\" is not one of host ", host, ": make the coordinator's with ",
                                                 kMakeCerts, " DIR --server ", host,
                                                 ", or reach it under a name that the certificate has"));
}

absl::Status CheckHasNoPrivateKey(const std::string& file) {
  ADJOIN_ASSIGN_OR_RETURN(const std::string pem, ReadText(file));
  for (const absl::string_view line : absl::StrSplit(pem, '\n')) {
    if (!absl::StartsWith(line, "-----BEGIN ") || !absl::StrContains(line, "PRIVATE KEY-----")) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        file,
        " holds a private key, and all who connect may read the certificates in it: keep the key in another file"));
  }
  return absl::OkStatus();
}

absl::Status CheckKey(const std::string& certificate_file, const std::string& key_file) {
  ADJOIN_ASSIGN_OR_RETURN(const std::string pem, ReadText(certificate_file));
  const std::vector<X509Ptr> certificates = ParsePem(pem, 1);
  if (certificates.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(certificate_file, " holds no certificate in PEM format"));
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::string text, ReadText(key_file));
  struct stat info;
  if (stat(key_file.c_str(), &info) == 0 && (info.st_mode & 007) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("every user of this machine may read ", key_file, ": chmod 600 it"));
  }
  BioPtr bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  // A key with a passphrase would ask for it on the terminal.
  auto no_passphrase = [](char*, int, int, void*) { return -1; };
  KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr));
  const bool fits = key != nullptr && X509_check_private_key(certificates[0].get(), key.get()) == 1;
  ERR_clear_error();
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(key_file, " holds no private key in PEM format without a passphrase"));
  }
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(key_file, " is not the key of the certificate in ", certificate_file));
}

bool IsPeerName(absl::string_view name) {
  constexpr size_t kMost = 200;
  bool right = !name.empty() && name.size() <= kMost;
  for (char c : right ? name : "") right = right && (absl::ascii_isalnum(c) || absl::StrContains("-_.@", c));
  return right;
}

absl::StatusOr<PeerName> NameOf(const Certificate& certificate) {
  constexpr absl::string_view kScheme = "adjoin://";
  auto wrong = [&](const std::string& what) {
    return absl::UnauthenticatedError(absl::StrCat(
        "certificate \"", certificate.subject, "\" ", what,
        "; right is one URI adjoin://ROLE/NAME in its subjectAltName, ROLE being admin, user, worker or viewer, as of ",
        kMakeCerts, " --client ROLE NAME"));
  };
  PeerName found;
  for (const std::string& uri : certificate.uris) {
    if (!absl::StartsWith(uri, kScheme)) continue;
    if (!found.role.empty()) return wrong("has several adjoin:// names");
    const std::vector<std::string> parts = absl::StrSplit(absl::StripPrefix(uri, kScheme), '/');
    const bool right = parts.size() == 2 && IsPeerName(parts[1]) &&
                       (parts[0] == "admin" || parts[0] == "user" || parts[0] == "worker" || parts[0] == "viewer");
    if (!right) return wrong("has an adjoin:// name that is none");
    found = {parts[0], parts[1]};
  }
  if (found.role.empty()) return wrong("has no adjoin:// name");
  return found;
}

}  // namespace adjoin
