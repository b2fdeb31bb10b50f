// The types of tunnel identifiers, from schemas/tunnels.tsv.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "frame/dissection.hpp"

namespace acapella {

enum class TunnelType : std::uint8_t {
#define ACAPELLA_TUNNEL(name, number, directions) name = (number),
#include "tunnels.inc"
#undef ACAPELLA_TUNNEL
};

// The text in the column `tunnels`.
constexpr std::string_view text_of(TunnelType type) {
    switch (type) {
#define ACAPELLA_TUNNEL(name, number, directions) \
    case TunnelType::name:                        \
        return #name;
#include "tunnels.inc"
#undef ACAPELLA_TUNNEL
    }
    return {};
}

constexpr std::optional<TunnelType> tunnel_type_of(std::string_view text) {
#define ACAPELLA_TUNNEL(name, number, directions) \
    if (text == #name) return TunnelType::name;
#include "tunnels.inc"
#undef ACAPELLA_TUNNEL
    return std::nullopt;
}

// Relation between the identifiers of the two directions of a flow.
enum class Directions : std::uint8_t {
    same,         // one identifier for the network
    mostly_same,  // each end has its own identifier, usually configured to the same number (GRE key)
    may_differ,   // chosen by each end; equal values are a coincidence (TEID)
};

constexpr Directions directions_of(TunnelType type) {
    switch (type) {
#define ACAPELLA_TUNNEL(name, number, directions) \
    case TunnelType::name:                        \
        return Directions::directions;
#include "tunnels.inc"
#undef ACAPELLA_TUNNEL
    }
    return Directions::may_differ;
}

}  // namespace acapella
