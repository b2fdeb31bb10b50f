#include "hybrid/hybrid_digest.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "issue.hpp"

namespace acapella::hybrid {
namespace {

constexpr std::uint16_t kLinkEthernet = 1;
constexpr std::uint32_t kStackFlows = 1U << 10;  // more stacks share them
constexpr int kPipeBytes = 1 << 20;
constexpr std::uint64_t kFlushEvery = 1U << 13;     // frames
constexpr std::size_t kMaxRows = 1U << 16;          // 4 MiB of rows that wait
constexpr std::uint64_t kMaxUnanswered = 1U << 14;  // frames sent; some 3 MiB of answers that wait

// A flow for Selection: frames without an IP header go by their native stack.
std::uint32_t flow_number(const FrameRow& row) {
    return row.key != kNone ? kStackFlows + row.key : row.stack % kStackFlows;
}

// What is left of a colon-separated text without its first `count` tokens.
std::string_view without_tokens(std::string_view text, std::size_t count) {
    for (; count > 0; --count) text.remove_prefix(std::min(text.find(':'), text.size() - 1) + 1);
    return text;
}

// What stands in `answer` above `native`; none where it does not start so.
std::optional<std::string_view> above(std::string_view answer, std::string_view native) {
    if (!answer.starts_with(native)) return std::nullopt;
    answer.remove_prefix(native.size());
    if (answer.empty()) return answer;
    if (answer.front() != ':') return std::nullopt;
    return answer.substr(1);
}

}  // namespace

Questions::Questions(int descriptor) : descriptor_(descriptor), writer_(descriptor) {
    ::fcntl(descriptor, F_SETPIPE_SZ, kPipeBytes);  // only the pace depends on it
}

Questions::~Questions() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

void Questions::write(const Record& record) {
    if (!writer_.write(record)) throw AskingError(writer_.error());
}

void Questions::flush() {
    if (flushed_ == writer_.frames()) return;
    if (!writer_.flush()) throw AskingError(writer_.error());
    flushed_ = writer_.frames();
}

void Questions::end() {
    if (!writer_.flush()) throw AskingError(writer_.error());
    ::close(std::exchange(descriptor_, -1));
}

std::optional<Batch> HybridDigest::next_frames() {
    if (ended_) return std::nullopt;
    while (!ledger_.full()) {
        if (!read_all_ && !must_wait()) {
            if (read_row()) {
                while (!ledger_.full() && book_first(false)) {
                }
                continue;
            }
            read_all_ = true;
            questions_.end();
        }
        if (rows_.empty()) {
            end();
            break;
        }
        questions_.flush();
        book_first(true);
    }
    Batch batch = ledger_.take_frames();
    if (ended_ && batch.columns.length == 0) return std::nullopt;
    return batch;
}

// The flow table needs memory too.
void HybridDigest::end() {
    answers_.expect_end();
    ended_ = true;
    applications_.reset();
    selection_.reset();
    rows_ = RowQueue();
    ledger_.close_frames();
}

bool HybridDigest::must_wait() const { return rows_.size() >= kMaxRows || unanswered_ >= kMaxUnanswered; }

// The next frame joins the queue; false after the last.
bool HybridDigest::read_row() {
    FrameRow row;
    if (!front_.next(row)) return false;
    if (choose(row)) ask(row);
    rows_.push(row);
    if (row.frame % kFlushEvery == 0) questions_.flush();
    return true;
}

// The first row of the queue goes to the ledger; false where there is none, or its answer is not there yet.
bool HybridDigest::book_first(bool wait) {
    if (rows_.empty()) return false;
    FrameRow& row = rows_.front();
    if (row.has(FrameRow::kSent)) {
        const Answer* answer = wait ? &answers_.wait() : answers_.poll();
        if (answer == nullptr) return false;
        --unanswered_;
        const Verdict decided = verdict(row, *answer);
        ledger_.add(row, decided);
    } else {
        ledger_.add(row, row.has(FrameRow::kOpenAbove) ? carried(row)
                                                       : Verdict{row.stack, L4By::kNative, AppBy::kNative});
    }
    rows_.pop();
    return true;
}

// Whether tshark shall see the frame; its kind where the core is sure of what stands below.
bool HybridDigest::choose(FrameRow& row) {
    if (options_.ask_all) row.bits = static_cast<std::uint8_t>(row.bits & ~FrameRow::kSure);
    bool send = !row.has(FrameRow::kSure);
    if (!send && row.has(FrameRow::kOpenAbove)) {
        const Dissection& d = front_.dissection();
        const auto length = d.has_payload_len ? d.payload_len : static_cast<std::uint32_t>(d.payload.size());
        const Choice choice = selection_->choose(flow_number(row), d.payload, length);
        row.kind = choice.kind;
        send = choice.send;
    }
    if (send) row.bits |= FrameRow::kSent;
    return send;
}

void HybridDigest::ask(const FrameRow& row) {
    const Dissection& d = front_.dissection();
    Record record = front_.record();
    if (row.has(FrameRow::kSure) && d.bare_tokens > 0) {
        record.bytes = d.bare;
        record.wire_len = d.bare_wire_len;
        record.link_type = kLinkEthernet;
        record.pseudo_header = {};
    }
    questions_.write(record);
    ++unanswered_;
}

Verdict HybridDigest::verdict(FrameRow& row, const Answer& answer) {
    if (row.has(FrameRow::kSure)) return joined(row, answer);
    take_keys(answer, keys_);
    replace_keys(row, keys_);
    if (row.issue == Issue::unsupported_link_type && answer[Field::encap] != kUnknownEncap)
        row.issue = Issue::none;
    row.key = front_.keys().intern(keys_);
    return {front_.names().intern(answer.protocols(), stack_text(answer)), L4By::kTshark, AppBy::kTshark};
}

// The core's layers 2 to 4 with what tshark says above them.
Verdict HybridDigest::joined(const FrameRow& row, const Answer& answer) {
    const std::string_view native = without_tokens(front_.names().protocols_text(row.stack), row.bare_tokens);
    const auto tokens = above(answer.protocols(), native);
    if (!tokens) {
        ++contradictions_;
        return carried(row);
    }
    const std::uint32_t number = applications_->learn(row.kind, *tokens);
    return {applications_->stack(front_.names(), row.stack, number), L4By::kNative, AppBy::kTshark};
}

Verdict HybridDigest::carried(const FrameRow& row) {
    const std::uint32_t number = applications_->carried(row.kind);
    if (number == kNone) return {row.stack, L4By::kNative, AppBy::kNobody};
    return {applications_->stack(front_.names(), row.stack, number), L4By::kNative, AppBy::kFlow};
}

}  // namespace acapella::hybrid
