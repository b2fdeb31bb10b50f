// What tshark's answers say of the frames that it did not see.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "containers/pool.hpp"
#include "containers/slots.hpp"
#include "containers/text_table.hpp"
#include "frame/stack_names.hpp"
#include "hybrid/selection.hpp"

namespace acapella::hybrid {

class Applications {
  public:
    // `selection` outlives this.
    explicit Applications(const Selection& selection) : selection_(selection) {}

    // A frame of `kind` has `tokens` above its native headers: so have the next ones of the kind, and of the
    // kinds that contain it, until another answer says otherwise. Returns the number of `tokens`.
    std::uint32_t learn(std::uint32_t kind, std::string_view tokens);
    // What the latest answer of the kind, or of the nearest that contains it, said; kNone where there is
    // none.
    std::uint32_t carried(std::uint32_t kind);
    // The native stack with the tokens of a number above it.
    std::uint32_t stack(StackNames& names, std::uint32_t native, std::uint32_t tokens);

  private:
    static constexpr std::uint32_t kNothing = 0x7fffffff;
    struct Opinion {
        std::uint32_t text : 31 = kNothing;  // a row of texts_
        std::uint32_t confirmed : 1 = 0;

        void hear(std::uint32_t said);
    };

    const Selection& selection_;
    Opinion& opinion(std::uint32_t kind);
    std::uint32_t parent(std::uint32_t kind) const;

    Pool<Opinion> of_kinds_;
    Pool<Opinion> of_flows_;
    TextTable texts_;
    std::unordered_map<std::uint64_t, std::uint32_t> stacks_;  // by native stack and tokens
};

}  // namespace acapella::hybrid
