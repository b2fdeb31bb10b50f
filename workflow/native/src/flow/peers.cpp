#include "flow/peers.hpp"

namespace acapella {

Peers::Group& Peers::group_of(std::uint32_t endpoints) {
    while (by_endpoints_.size() <= endpoints) by_endpoints_.add(Group{});
    return by_endpoints_[endpoints];
}

std::uint32_t Peers::TagGroups::row_of(std::uint64_t wanted) const {
    return index_.find(hash_(wanted),
                       [&](std::uint32_t row) { return entries_[row].endpoints_and_class == wanted; });
}

Peers::Group Peers::TagGroups::find(std::uint32_t endpoints, std::uint32_t tags_class) const {
    const std::uint32_t row = row_of(joined(endpoints, tags_class));
    return row == kNone ? Group{} : entries_[row].group;
}

void Peers::TagGroups::add(std::uint32_t endpoints, std::uint32_t tags_class, std::uint32_t flow) {
    const std::uint64_t wanted = joined(endpoints, tags_class);
    const std::uint32_t found = row_of(wanted);
    if (found != kNone) {
        ++entries_[found].group.count;
        return;
    }
    const std::uint32_t added = entries_.add({wanted, {.count = 1, .first = flow}});
    index_.insert(hash_(wanted), added,
                  [this](std::uint32_t row) { return hash_(entries_[row].endpoints_and_class); });
}

void Peers::add_to_tag_groups(std::uint32_t flow, FlowKey key) {
    by_shared_.add(key.endpoints, keys_.shared(key.tags), flow);
    by_network_.add(key.endpoints, keys_.network(key.tags), flow);
    by_keyed_network_.add(key.endpoints, keys_.keyed_network(key.tags), flow);
}

std::uint32_t Peers::reversed_flows(FlowKey key) const {
    const std::uint32_t other = keys_.reversed(key.endpoints);  // kNone is larger than any size
    return other < by_endpoints_.size() ? by_endpoints_[other].count : 0;
}

std::uint32_t Peers::choose_by_tags(FlowKey key) const {
    const std::uint32_t other = keys_.reversed(key.endpoints);
    const Group shared = by_shared_.find(other, keys_.shared(key.tags));
    if (shared.count <= 1) return shared.first;
    const Group network = by_network_.find(other, keys_.network(key.tags));
    if (network.count <= 1) return network.first;
    const Group keyed = by_keyed_network_.find(other, keys_.keyed_network(key.tags));
    return keyed.count == 1 ? keyed.first : kNone;
}

}  // namespace acapella
