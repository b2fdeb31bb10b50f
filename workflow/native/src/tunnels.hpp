// The types of tunnel identifiers, from schemas/tunnels.tsv.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "dissection.hpp"

namespace acapella {

enum class TunnelType : std::uint8_t {
#define ACAPELLA_TUNNEL(name, number, same_both_ways) name = (number),
#include "tunnels.inc"
#undef ACAPELLA_TUNNEL
};

// As in the column `tunnels`.
constexpr std::string_view text_of(TunnelType type) {
    switch (type) {
#define ACAPELLA_TUNNEL(name, number, same_both_ways) \
    case TunnelType::name:                            \
        return #name;
#include "tunnels.inc"
#undef ACAPELLA_TUNNEL
    }
    return {};
}

constexpr std::optional<TunnelType> tunnel_type_of(std::string_view text) {
#define ACAPELLA_TUNNEL(name, number, same_both_ways) \
    if (text == #name) return TunnelType::name;
#include "tunnels.inc"
#undef ACAPELLA_TUNNEL
    return std::nullopt;
}

// Whether both directions of a flow have the same identifier; otherwise each end may choose its own.
constexpr bool same_both_ways(TunnelType type) {
    switch (type) {
#define ACAPELLA_TUNNEL(name, number, same_both_ways) \
    case TunnelType::name:                            \
        return same_both_ways;
#include "tunnels.inc"
#undef ACAPELLA_TUNNEL
    }
    return false;
}

}  // namespace acapella
