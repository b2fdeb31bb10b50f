// The distinct header stacks of a sample, each with its two text forms (`protocols` and `stack`) and the
// tokens above layer 4. Stacks with equal `protocols` may differ: an MPLS label stack is one token in
// `protocols`, but `MPLS` for each entry in `stack`.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "containers/hash_index.hpp"
#include "containers/table_hash.hpp"
#include "containers/text_table.hpp"
#include "frame/dissection.hpp"

namespace acapella {

class HeaderStacks {
  public:
    // Adds the stack of the native tokens.
    std::uint32_t intern(const Dissection& dissection);
    // Adds a native stack with application tokens as in frame.protocols ("tls", "http:json").
    std::uint32_t with_application(std::uint32_t stack, std::string_view tokens);
    // Adds a stack by its two text forms. The tokens after the last token of layers 2 to 4 are the
    // application.
    std::uint32_t intern(std::string_view protocols, std::string_view stack);

    std::uint32_t size() const { return static_cast<std::uint32_t>(stacks_.size()); }
    // Approximate memory use. Each column also has a dictionary of these texts.
    std::uint64_t bytes() const {
        constexpr std::uint64_t kStack = sizeof(Stack) + 64;  // plus applications and node in by_rows_
        return paths_.capacity() * sizeof(Path) + stack_of_path_.capacity() * sizeof(std::uint32_t) +
               path_index_.bytes() + stacks_.size() * kStack +
               2 * (protocols_.bytes() + stack_texts_.bytes() + tokens_.bytes());
    }
    // Rows of protocols() and stacks(); equal texts have the same row.
    std::uint32_t protocols_row(std::uint32_t stack) const { return stacks_[stack].protocols; }
    std::uint32_t stack_row(std::uint32_t stack) const { return stacks_[stack].stack; }
    const TextTable& protocols() const { return protocols_; }
    const TextTable& stacks() const { return stack_texts_; }
    const std::string& protocols_text(std::uint32_t stack) const {
        return protocols_[stacks_[stack].protocols];
    }
    const std::string& stack_text(std::uint32_t stack) const { return stack_texts_[stacks_[stack].stack]; }

    // Returns the distinct tokens above layer 4, as rows of tokens().
    std::span<const std::uint32_t> applications(std::uint32_t stack) const {
        return stacks_[stack].applications;
    }
    const TextTable& tokens() const { return tokens_; }

  private:
    struct Stack {
        std::uint32_t protocols;
        std::uint32_t stack;
        std::vector<std::uint32_t> applications;
    };
    // Tokens and their repeats, to find the stack of a dissection without building its texts.
    struct Path {
        std::array<Token, kMaxTokens> tokens;
        std::array<std::uint8_t, kMaxTokens> repeats;
        std::uint8_t size;

        bool matches(const Dissection& dissection) const;
    };

    std::uint64_t hash(const Token* tokens, const std::uint8_t* repeats, std::size_t size) const;
    std::uint32_t add_path(const Dissection& dissection, std::uint64_t hash);

    TableHash hash_;
    std::vector<Path> paths_;
    std::uint32_t last_path_ = kNone;
    std::vector<std::uint32_t> stack_of_path_;
    HashIndex path_index_;
    std::vector<Stack> stacks_;
    std::unordered_map<std::uint64_t, std::uint32_t, TableHash> by_rows_{16, hash_};
    TextTable protocols_;
    TextTable stack_texts_;
    TextTable tokens_;
};

}  // namespace acapella
