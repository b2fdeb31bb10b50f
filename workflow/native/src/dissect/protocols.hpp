// Selects the dissector for an IP protocol number, for IPv4, IPv6 and its extension headers, and AH.
#pragma once

#include "dissect/walk.hpp"

namespace acapella {

Next by_protocol(Walk& walk);  // uses Walk::key

}  // namespace acapella
