#include "flow/peers.hpp"

namespace acapella {

void Peers::add(std::uint32_t flow, FlowKey key) {
    if (key.endpoints >= by_endpoints_.size()) {
        by_endpoints_.resize(key.endpoints + 1);
        first_tags_.resize(key.endpoints + 1);
    }
    Group& group = by_endpoints_[key.endpoints];
    if (group.count == 0) {
        group.first = flow;
        first_tags_[key.endpoints] = key.tags;
    } else {
        if (group.count == 1) add_to_vlan_group(group.first, {key.endpoints, first_tags_[key.endpoints]});
        add_to_vlan_group(flow, key);
    }
    ++group.count;
}

void Peers::add_to_vlan_group(std::uint32_t flow, FlowKey key) {
    Group& group = by_vlan_[vlan_group(key.endpoints, key.tags)];
    if (group.count++ == 0) group.first = flow;
}

std::uint32_t Peers::candidates(FlowKey key) const {
    const std::uint32_t other = keys_.reversed(key.endpoints);
    return other < by_endpoints_.size() ? by_endpoints_[other].count : 0;
}

std::uint32_t Peers::choose(FlowKey key) const {
    const std::uint32_t count = candidates(key);
    if (count == 0) return kNone;
    const std::uint32_t other = keys_.reversed(key.endpoints);
    if (count == 1) return by_endpoints_[other].first;
    const auto found = by_vlan_.find(vlan_group(other, key.tags));
    return found != by_vlan_.end() && found->second.count == 1 ? found->second.first : kNone;
}

}  // namespace acapella
