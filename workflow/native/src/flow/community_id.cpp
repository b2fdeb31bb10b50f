#include "flow/community_id.hpp"

#include <netinet/in.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <span>
#include <stdexcept>

namespace acapella {
namespace {

constexpr std::size_t kSha1 = 20;
constexpr std::size_t kMaxBytes = 2 + 2 * 16 + 2 + 2 * 2;  // seed, addresses, protocol and padding, ports
constexpr std::size_t kBase64 = 4 * ((kSha1 + 2) / 3);

struct End {
    std::span<const std::byte> address;
    std::uint16_t port;

    bool operator<(const End& other) const {
        const int order = std::memcmp(address.data(), other.address.data(), address.size());
        return order < 0 || (order == 0 && port < other.port);
    }
};

std::byte* put(std::byte* at, std::span<const std::byte> bytes) {
    return std::copy(bytes.begin(), bytes.end(), at);
}

std::byte* put16(std::byte* at, std::uint16_t value) {
    *at++ = static_cast<std::byte>(value >> 8);
    *at++ = static_cast<std::byte>(value & 0xff);
    return at;
}

bool has_id(const Endpoints& e) {
    return e.has_ports &&
           (e.ip_proto == IPPROTO_TCP || e.ip_proto == IPPROTO_UDP || e.ip_proto == IPPROTO_SCTP);
}

}  // namespace

void CommunityIds::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }
void CommunityIds::Free::operator()(evp_md_st* digest) const { EVP_MD_free(digest); }

CommunityIds::CommunityIds() : sha1_(EVP_MD_fetch(nullptr, "SHA1", nullptr)), context_(EVP_MD_CTX_new()) {
    if (!sha1_) throw std::runtime_error("OpenSSL has no SHA-1");
    if (!context_) throw std::bad_alloc();
}

std::optional<std::string> CommunityIds::of(const Endpoints& e) const {
    if (!has_id(e)) return std::nullopt;
    const std::size_t width = e.ip_version == 4 ? 4 : 16;
    End low{std::span(e.src).first(width), e.src_port};
    End high{std::span(e.dst).first(width), e.dst_port};
    if (high < low) std::swap(low, high);

    std::array<std::byte, kMaxBytes> bytes{};
    std::byte* end = put16(bytes.data(), 0);  // seed
    end = put(put(end, low.address), high.address);
    *end++ = static_cast<std::byte>(e.ip_proto);
    *end++ = std::byte{0};
    end = put16(put16(end, low.port), high.port);

    std::array<unsigned char, kSha1> hash{};
    const auto size = static_cast<std::size_t>(end - bytes.data());
    if (EVP_DigestInit_ex2(context_.get(), sha1_.get(), nullptr) != 1 ||
        EVP_DigestUpdate(context_.get(), bytes.data(), size) != 1 ||
        EVP_DigestFinal_ex(context_.get(), hash.data(), nullptr) != 1)
        throw std::runtime_error("OpenSSL did not compute SHA-1");
    std::array<unsigned char, kBase64 + 1> text{};
    EVP_EncodeBlock(text.data(), hash.data(), kSha1);
    return "1:" + std::string(reinterpret_cast<const char*>(text.data()), kBase64);
}

}  // namespace acapella
