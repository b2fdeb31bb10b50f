#include "anonymize/pseudonyms/tunnel_map.hpp"

#include <array>

#include "frame/tunnels.hpp"

namespace acapella::anonymize {
namespace {

constexpr std::size_t kMaxCachedTunnels = 1U << 16;  // about 2 MiB; then the cache is cleared

// The ranges of identifiers that are permuted separately, by exponents of 2: {a, b, c} are the identifiers
// below 2^a, those from there to below 2^b, and those from there to below 2^c. Unused elements repeat the
// last.
using Ranges = std::array<std::uint8_t, 3>;

Ranges ranges_of(TunnelType type) {
    switch (type) {
        case TunnelType::vxlan_vni:
        case TunnelType::vxlan_gpe_vni:
        case TunnelType::geneve_vni:
        case TunnelType::pbb_isid:
            return {24, 24, 24};
        case TunnelType::gre_key:  // gre::key_identifier() reads some keys of 2^20 and above as NVGRE
            return {20, 32, 32};
        case TunnelType::nvgre_vsid:  // 0 to 0xfff are reserved (RFC 7637 section 3.2) and not read as NVGRE
            return {12, 24, 24};
        case TunnelType::nvgre_flow_id:  // 0: no FlowID (RFC 7637 section 3.2)
            return {0, 8, 8};
        case TunnelType::pptp_call:
            return {16, 16, 16};
        case TunnelType::gtp_teid:  // 0: no tunnel yet (3GPP TS 29.281 clause 5.1)
            return {0, 32, 32};
        case TunnelType::l2tp_tunnel:  // 0: not assigned yet (RFC 2661 section 3.1); 16 bits in version 2
        case TunnelType::l2tp_session:
            return {0, 16, 32};
        case TunnelType::pppoe_session:  // 0: discovery (RFC 2516 section 5)
            return {0, 16, 16};
        case TunnelType::erspan_session:
            return {10, 10, 10};
    }
    return {32, 32, 32};
}

}  // namespace

unsigned bits_of(TunnelType type) { return ranges_of(type).back(); }

// Returns the identifier whose permuted value follows that of `id`. So no identifier is its own pseudonym,
// which would happen for a few identifiers in a plain permutation. Results outside the range are permuted
// again.
std::uint32_t TunnelMap::replaced(TunnelType type, std::uint32_t id) const {
    const auto kind = static_cast<std::uint8_t>(type);
    std::uint64_t low = 0;
    for (const std::uint8_t bits : ranges_of(type)) {
        const std::uint64_t high = std::uint64_t{1} << bits;
        if (id < high) {
            if (bits == 0) return id;
            std::uint64_t value = id;
            do value = permutation_.map(value, bits, kind);
            while (value < low);
            value = value + 1 == high ? low : value + 1;
            do value = permutation_.inverse(value, bits, kind);
            while (value < low);
            return static_cast<std::uint32_t>(value);
        }
        low = high;
    }
    return 0;  // wider than the field: cannot occur
}

std::uint32_t TunnelMap::map(TunnelType type, std::uint32_t id) {
    const std::uint64_t cache_key = std::uint64_t{static_cast<std::uint8_t>(type)} << 32 | id;
    const auto found = known_.find(cache_key);
    if (found != known_.end()) return found->second;
    if (known_.size() == kMaxCachedTunnels) known_.clear();
    return known_[cache_key] = replaced(type, id);
}

}  // namespace acapella::anonymize
