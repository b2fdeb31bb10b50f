#include "flow/peers.hpp"

namespace acapella {

Peers::Group& Peers::group_of(std::uint32_t endpoints) {
    while (by_endpoints_.size() <= endpoints) by_endpoints_.add(Group{});
    return by_endpoints_[endpoints];
}

std::uint32_t Peers::find_network_group(std::uint64_t wanted) const {
    return network_index_.find(
        hash_(wanted), [&](std::uint32_t row) { return by_network_[row].endpoints_and_network == wanted; });
}

void Peers::add_to_network_group(std::uint32_t flow, FlowKey key) {
    const std::uint64_t wanted = network_group(key.endpoints, key.tags);
    const std::uint32_t found = find_network_group(wanted);
    if (found != kNone) {
        ++by_network_[found].group.count;
        return;
    }
    const std::uint32_t added = by_network_.add({wanted, {.count = 1, .first = flow}});
    network_index_.insert(hash_(wanted), added, [this](std::uint32_t row) {
        return hash_(by_network_[row].endpoints_and_network);
    });
}

std::uint32_t Peers::candidates(FlowKey key) const {
    const std::uint32_t other = keys_.reversed(key.endpoints);  // kNone is above every size
    return other < by_endpoints_.size() ? by_endpoints_[other].count : 0;
}

std::uint32_t Peers::choose(FlowKey key) const {
    const std::uint32_t count = candidates(key);
    if (count == 0) return kNone;
    const std::uint32_t other = keys_.reversed(key.endpoints);
    if (count == 1) return by_endpoints_[other].first;
    const std::uint32_t found = find_network_group(network_group(other, key.tags));
    return found != kNone && by_network_[found].group.count == 1 ? by_network_[found].group.first : kNone;
}

}  // namespace acapella
