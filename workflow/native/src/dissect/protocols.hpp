// What stands above an IP protocol number, whoever carried it: IPv4, IPv6 and its extension headers, AH.
#pragma once

#include "dissect/walk.hpp"

namespace acapella {

Next by_protocol(Walk& walk);  // of Walk::key

}  // namespace acapella
