// Predicts the application of frames that were not sent to tshark from frames that were.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "containers/hash_index.hpp"
#include "containers/pool.hpp"
#include "containers/text_table.hpp"
#include "frame/header_stacks.hpp"
#include "hybrid/selection.hpp"

namespace acapella::hybrid {

class ApplicationCache {
  public:
    // `selection` must outlive this object.
    explicit ApplicationCache(const Selection& selection) : selection_(selection) {}

    // Records that a frame of `kind` has `tokens` above its native headers, and updates the predictions for
    // this kind and for the kinds that contain it. A confirmed prediction is replaced only by the second of
    // two contradicting frames in a row. Returns the row of `tokens`, for stack().
    std::uint32_t learn(std::uint32_t kind, std::string_view tokens);
    // Returns the row of the tokens predicted for the kind, or for the nearest kind that contains it; kNone
    // if there is none.
    std::uint32_t predict(std::uint32_t kind);
    // Returns the native stack with the application tokens of this row.
    std::uint32_t stack(HeaderStacks& header_stacks, std::uint32_t native, std::uint32_t tokens);

  private:
    static constexpr std::uint32_t kUnknown = 0x7fffffff;
    struct Prediction {
        std::uint32_t text : 31 = kUnknown;  // a row of texts_
        std::uint32_t confirmed : 1 = 0;

        void update(std::uint32_t observed);
    };

    const Selection& selection_;
    Prediction& prediction(std::uint32_t kind);
    std::uint32_t parent(std::uint32_t kind) const;

    Pool<Prediction> kind_predictions_;
    Pool<Prediction> flow_predictions_;
    TextTable texts_;
    std::unordered_map<std::uint64_t, std::uint32_t> stacks_;  // by native stack and tokens
};

}  // namespace acapella::hybrid
