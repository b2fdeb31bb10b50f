// Community ID flow hashing, version 1 (github.com/corelight/community-id-spec). The id is identical in both
// directions.
#pragma once

#include <optional>
#include <string>

#include "flow/flow_keys.hpp"

namespace acapella {

// Returns the id with seed 0: "1:" and 28 characters of base64. `std::nullopt` unless the protocol is TCP,
// UDP or SCTP and the ports are known: the specification hashes the ICMP type and code, which are not part of
// a flow, and implementations disagree on protocols without ports.
[[nodiscard]] std::optional<std::string> community_id_of(const Endpoints& endpoints);

}  // namespace acapella
