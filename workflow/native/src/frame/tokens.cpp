#include "frame/tokens.hpp"

#include <algorithm>
#include <array>
#include <iterator>

namespace acapella {
namespace {

struct Entry {
    std::string_view text;
    std::string_view label;
    Layer layer;
};

constexpr Entry kTokens[] = {
#define ACAPELLA_TOKEN(name, text, label, layer) {text, label, Layer::layer},
#define ACAPELLA_APPLICATION(text, label)
#include "tokens.inc"
#undef ACAPELLA_TOKEN
#undef ACAPELLA_APPLICATION
};

constexpr Entry kApplications[] = {
#define ACAPELLA_TOKEN(name, text, label, layer)
#define ACAPELLA_APPLICATION(text, label) {text, label, Layer::kApplication},
#include "tokens.inc"
#undef ACAPELLA_TOKEN
#undef ACAPELLA_APPLICATION
};

const Entry* find(std::string_view text) {
    for (const Entry& entry : kTokens) {
        if (entry.text == text) return &entry;
    }
    const auto* found =
        std::lower_bound(std::begin(kApplications), std::end(kApplications), text,
                         [](const Entry& entry, std::string_view key) { return entry.text < key; });
    return found != std::end(kApplications) && found->text == text ? found : nullptr;
}

}  // namespace

std::string_view text_of(Token token) { return kTokens[static_cast<std::size_t>(token)].text; }
std::string_view label_of(Token token) { return kTokens[static_cast<std::size_t>(token)].label; }
Layer layer_of(Token token) { return kTokens[static_cast<std::size_t>(token)].layer; }

Layer layer_of(std::string_view token) {
    const Entry* entry = find(token);
    return entry ? entry->layer : Layer::kApplication;
}

std::string label_of(std::string_view token) {
    if (const Entry* entry = find(token)) return std::string(entry->label);
    std::string label(token);
    std::transform(label.begin(), label.end(), label.begin(), [](char letter) {
        return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 32) : letter;
    });
    return label;
}

std::string protocols_of(const Dissection& dissection) {
    std::string text;
    for (std::size_t i = 0; i < dissection.token_count; ++i) {
        if (i) text += ':';
        text += text_of(dissection.tokens[i]);
    }
    return text;
}

std::string stack_of(const Dissection& dissection) {
    std::string text;
    for (std::size_t i = 0; i < dissection.token_count; ++i) {
        const std::string_view label = label_of(dissection.tokens[i]);
        for (std::size_t n = label.empty() ? 0 : dissection.repeats[i]; n > 0; --n) {
            if (!text.empty()) text += '/';
            text += label;
        }
    }
    return text;
}

namespace {

constexpr std::array kExtensions{Token::ipv6_hopopts, Token::ipv6_routing, Token::ipv6_fraghdr,
                                 Token::ipv6_dstopts};

}  // namespace

bool has_position(Token token) {
    return !label_of(token).empty() && std::ranges::find(kExtensions, token) == kExtensions.end();
}

bool has_position(std::string_view token) {
    constexpr auto kText = [](Token extension) { return text_of(extension); };
    return !label_of(token).empty() && std::ranges::find(kExtensions, token, kText) == kExtensions.end();
}

std::uint16_t last_position(const Dissection& dissection) {
    std::uint16_t count = 0;
    for (std::size_t i = 0; i < dissection.token_count; ++i)
        if (has_position(dissection.tokens[i]))
            count = static_cast<std::uint16_t>(count + dissection.repeats[i]);
    return count;
}

}  // namespace acapella
