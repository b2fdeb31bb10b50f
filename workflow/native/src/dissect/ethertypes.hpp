// Selects the dissector for an ethertype, for Ethernet, VLAN, PBB, SNAP, Geneve and Linux cooked captures.
#pragma once

#include "dissect/walk.hpp"

namespace acapella {

Next by_ethertype(Walk& walk);  // uses Walk::key

}  // namespace acapella
