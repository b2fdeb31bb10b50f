#include "hybrid/application_cache.hpp"

namespace acapella::hybrid {

void ApplicationCache::Prediction::update(std::uint32_t observed) {
    if (observed == text) {
        confirmed = 1;
    } else if (confirmed) {
        confirmed = 0;
    } else {
        text = observed;
    }
}

ApplicationCache::Prediction& ApplicationCache::prediction(std::uint32_t kind) {
    const bool is_flow = (kind & kFlowKind) != 0;
    const std::uint32_t row = kind & ~kFlowKind;
    Pool<Prediction>& predictions = is_flow ? flow_predictions_ : kind_predictions_;
    while (predictions.size() <= row) predictions.add(Prediction{});
    return predictions[row];
}

std::uint32_t ApplicationCache::parent(std::uint32_t kind) const {
    return (kind & kFlowKind) != 0 ? kNone : selection_.kind(kind).parent;
}

std::uint32_t ApplicationCache::learn(std::uint32_t kind, std::string_view tokens) {
    const std::uint32_t text = texts_.intern(tokens);
    for (; kind != kNone; kind = parent(kind)) prediction(kind).update(text);
    return text;
}

std::uint32_t ApplicationCache::predict(std::uint32_t kind) {
    for (; kind != kNone; kind = parent(kind)) {
        const Prediction& known = prediction(kind);
        if (known.text != kUnknown) return known.text;
    }
    return kNone;
}

std::uint32_t ApplicationCache::stack(HeaderStacks& header_stacks, std::uint32_t native,
                                      std::uint32_t tokens) {
    const auto [entry, added] = stacks_.try_emplace((std::uint64_t{native} << 32) | tokens, kNone);
    if (added) entry->second = header_stacks.with_application(native, texts_[tokens]);
    return entry->second;
}

}  // namespace acapella::hybrid
