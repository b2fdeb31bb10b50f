#include "flow/community_id.hpp"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "flow/sha1.hpp"

namespace acapella {
namespace {

constexpr std::size_t kMaxBytes = 2 + 2 * 16 + 2 + 2 * 2;  // seed, addresses, protocol and padding, ports
static_assert(kMaxBytes <= kSha1Longest);

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

// Encodes a hash in base64 (RFC 4648 section 4). Two bytes remain after its last complete group of three.
std::string base64_of(const std::array<std::byte, kSha1Bytes>& hash) {
    constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static_assert(kSha1Bytes % 3 == 2);
    std::string text;
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i <= kSha1Bytes; ++i) {
        bits = bits << 8 | (i < kSha1Bytes ? std::to_integer<std::uint32_t>(hash[i]) : 0);
        if (i % 3 != 2) continue;
        for (const unsigned shift : {18U, 12U, 6U, 0U}) text += kDigits[bits >> shift & 63];
    }
    text.back() = '=';
    return text;
}

}  // namespace

std::optional<std::string> community_id_of(const Endpoints& e) {
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

    const auto size = static_cast<std::size_t>(end - bytes.data());
    return "1:" + base64_of(sha1_of_short(std::span(bytes).first(size)));
}

}  // namespace acapella
