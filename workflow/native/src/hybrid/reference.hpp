// Both tables as tshark alone has them, from its answers to a whole file that it read itself: what `acapella
// verify` compares a digest with. There is no inner_wire_len and no issue: tshark says neither.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "columns/tag_columns.hpp"
#include "digest/ledger.hpp"
#include "hybrid/answers.hpp"

namespace acapella::hybrid {

class Reference {
  public:
    // Takes over `answers`, tshark's standard output; `timeout`, `while_waiting` as AnswerReader.
    Reference(int answers, std::size_t batch_rows, Seconds timeout, WhileWaiting while_waiting = nullptr)
        : answers_(answers, Layout::kFields, timeout, std::move(while_waiting)),
          ledger_(keys_, names_, Place{}, batch_rows) {}

    // As NativeDigest. Throws AnswerError, TsharkTimeout.
    std::optional<Batch> next_frames();
    // VLAN ids and MPLS labels of the frames that next_frames() gave last.
    Batch tags() { return tags_.take(); }
    Batch flow_rows(std::uint32_t first, std::uint32_t count) const {
        return ledger_.flow_rows(first, count);
    }
    std::uint32_t flows() const { return ledger_.accountant().size(); }
    // Custom and journal blocks, which tshark lists as frames: they are left out, and not numbered.
    std::uint64_t blocks_not_frames() const { return blocks_not_frames_; }

  private:
    AnswerReader answers_;
    FlowKeys keys_;
    StackNames names_;
    Ledger ledger_;
    TagColumns tags_;
    Dissection dissection_;
    std::uint64_t blocks_not_frames_ = 0;
};

}  // namespace acapella::hybrid
