// SCTP, RFC 9260.
#include "dissect/dissectors.hpp"

namespace acapella {
namespace {

constexpr std::size_t kSctpHeader = 12;
constexpr std::uint8_t kData = 0;
constexpr std::uint8_t kIData = 64;  // RFC 8260

bool carries_data(const Cursor& at) {
    for (std::size_t chunk = kSctpHeader; at.has(chunk + 4);) {
        const std::uint8_t type = at.u8(chunk);
        if (type == kData || type == kIData) return true;
        const std::size_t length = at.be16(chunk + 2);
        if (length < 4) return false;
        chunk += (length + 3) & ~std::size_t{3};
    }
    return false;
}

}  // namespace

Next dissect_sctp(Walk& walk) {
    walk.push(Token::sctp);
    if (!walk.at.has(kSctpHeader)) return walk.truncated(Issue::truncated_sctp);
    walk.ports();
    walk.payload_length(static_cast<std::uint32_t>(walk.at.reported() - kSctpHeader));
    const bool data = carries_data(walk.at);
    walk.at.skip(kSctpHeader);
    return data ? walk.stop_at_payload() : Walk::stop();
}

}  // namespace acapella
