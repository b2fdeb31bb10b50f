#include "hybrid/applications.hpp"

namespace acapella::hybrid {

void Applications::Opinion::hear(std::uint32_t said) {
    if (said == text) {
        confirmed = 1;
    } else if (confirmed) {
        confirmed = 0;
    } else {
        text = said;
    }
}

Applications::Opinion& Applications::opinion(std::uint32_t kind) {
    const bool of_flow = (kind & kFlowKind) != 0;
    const std::uint32_t row = kind & ~kFlowKind;
    Pool<Opinion>& opinions = of_flow ? of_flows_ : of_kinds_;
    while (opinions.size() <= row) opinions.add(Opinion{});
    return opinions[row];
}

std::uint32_t Applications::parent(std::uint32_t kind) const {
    return (kind & kFlowKind) != 0 ? kNone : selection_.kind(kind).parent;
}

std::uint32_t Applications::learn(std::uint32_t kind, std::string_view tokens) {
    const std::uint32_t text = texts_.intern(tokens);
    for (; kind != kNone; kind = parent(kind)) opinion(kind).hear(text);
    return text;
}

std::uint32_t Applications::carried(std::uint32_t kind) {
    for (; kind != kNone; kind = parent(kind)) {
        const Opinion& known = opinion(kind);
        if (known.text != kNothing) return known.text;
    }
    return kNone;
}

std::uint32_t Applications::stack(StackNames& names, std::uint32_t native, std::uint32_t tokens) {
    const auto [entry, added] = stacks_.try_emplace((std::uint64_t{native} << 32) | tokens, kNone);
    if (added) entry->second = names.with_application(native, texts_[tokens]);
    return entry->second;
}

}  // namespace acapella::hybrid
