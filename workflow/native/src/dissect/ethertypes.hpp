// What stands above an ethertype, whoever carried it: Ethernet, VLAN, SNAP, GRE, Geneve, Linux cooked.
#pragma once

#include "dissect/walk.hpp"

namespace acapella {

Next by_ethertype(Walk& walk);  // of Walk::key

}  // namespace acapella
