#include "frame/header_stacks.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "frame/tokens.hpp"

namespace acapella {
namespace {

std::vector<std::string_view> split(std::string_view tokens) {
    std::vector<std::string_view> parts;
    while (!tokens.empty()) {
        const std::size_t end = std::min(tokens.find(':'), tokens.size());
        parts.push_back(tokens.substr(0, end));
        tokens.remove_prefix(std::min(end + 1, tokens.size()));
    }
    return parts;
}

}  // namespace

bool HeaderStacks::Path::matches(const Dissection& d) const {
    return size == d.token_count && std::memcmp(tokens.data(), d.tokens.data(), size) == 0 &&
           std::memcmp(repeats.data(), d.repeats.data(), size) == 0;
}

std::uint64_t HeaderStacks::hash(const Token* tokens, const std::uint8_t* repeats, std::size_t size) const {
    std::uint64_t state = TableHash::mix(hash_.start(), size);
    for (std::size_t at = 0; at < size; at += 8) {
        const std::size_t width = std::min<std::size_t>(size - at, 8);
        std::uint64_t token_word = 0;
        std::uint64_t repeat_word = 0;
        std::memcpy(&token_word, tokens + at, width);
        std::memcpy(&repeat_word, repeats + at, width);
        state = TableHash::mix(TableHash::mix(state, token_word), repeat_word);
    }
    return state;
}

std::uint32_t HeaderStacks::intern(const Dissection& d) {
    if (last_path_ != kNone && paths_[last_path_].matches(d)) return stack_of_path_[last_path_];
    const std::uint64_t key = hash(d.tokens.data(), d.repeats.data(), d.token_count);
    const std::uint32_t found =
        path_index_.find(key, [&](std::uint32_t row) { return paths_[row].matches(d); });
    last_path_ = found != kNone ? found : add_path(d, key);
    return stack_of_path_[last_path_];
}

std::uint32_t HeaderStacks::add_path(const Dissection& d, std::uint64_t key) {
    const auto row = static_cast<std::uint32_t>(paths_.size());
    paths_.push_back({d.tokens, d.repeats, d.token_count});
    stack_of_path_.push_back(intern(protocols_of(d), stack_of(d)));
    path_index_.insert(key, row, [this](std::uint32_t old) {
        return hash(paths_[old].tokens.data(), paths_[old].repeats.data(), paths_[old].size);
    });
    return row;
}

std::uint32_t HeaderStacks::with_application(std::uint32_t stack, std::string_view tokens) {
    if (tokens.empty()) return stack;
    std::string protocols = protocols_text(stack);
    std::string labels = stack_text(stack);
    protocols.append(protocols.empty() ? "" : ":").append(tokens);
    for (const std::string_view token : split(tokens)) {
        const std::string label = label_of(token);
        if (!label.empty()) labels.append(labels.empty() ? "" : "/").append(label);
    }
    return intern(protocols, labels);
}

std::uint32_t HeaderStacks::intern(std::string_view protocols, std::string_view stack) {
    const std::uint32_t protocols_row = protocols_.intern(protocols);
    const std::uint32_t stack_row = stack_texts_.intern(stack);
    const std::uint64_t rows = (static_cast<std::uint64_t>(protocols_row) << 32) | stack_row;
    const auto [entry, added] = by_rows_.try_emplace(rows, size());
    if (!added) return entry->second;
    Stack result{protocols_row, stack_row, {}};
    const std::vector<std::string_view> parts = split(protocols);
    const auto native_end = std::find_if(parts.rbegin(), parts.rend(), [](std::string_view token) {
        return layer_of(token) != Layer::kApplication;
    });
    for (auto token = native_end.base(); token != parts.end(); ++token) {
        const std::uint32_t token_row = tokens_.intern(*token);
        if (std::ranges::find(result.applications, token_row) == result.applications.end())
            result.applications.push_back(token_row);
    }
    stacks_.push_back(std::move(result));
    return entry->second;
}

}  // namespace acapella
