#include "hybrid/hybrid_digest.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <utility>

#include "frame/issue.hpp"

namespace acapella::hybrid {
namespace {

constexpr std::uint16_t kLinkEthernet = 1;
constexpr std::uint32_t kStackFlows = 1U << 10;  // more stacks share them
constexpr int kPipeBytes = 1 << 20;
constexpr std::uint64_t kFlushEvery = 1U << 13;  // frames
constexpr std::size_t kMaxRows = 1U << 16;       // 4 MiB of rows that wait
// Frames with hundreds of headers have long answers. tshark stops reading once its output waits
// (AnswerReader), which needs more than these and the answers to what is in its pipe.
constexpr std::size_t kMaxAnswerBytes = std::size_t{16} << 20;
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

Questions::Questions(int descriptor, Seconds timeout, WhileWaiting while_waiting)
    : descriptor_(descriptor),
      writer_(descriptor, std::chrono::duration_cast<std::chrono::milliseconds>(timeout),
              std::move(while_waiting)) {
    ::fcntl(descriptor, F_SETPIPE_SZ, kPipeBytes);  // only the pace depends on it
    ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

Questions::~Questions() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

void Questions::check(bool written) const {
    if (written) return;
    if (writer_.error_number() == ETIMEDOUT) throw TsharkTimeout("tshark stopped reading");
    throw AskingError(writer_.error());
}

void Questions::write(const Record& record) { check(writer_.write(record)); }

void Questions::flush() {
    if (flushed_ == writer_.frames()) return;
    check(writer_.flush());
    flushed_ = writer_.frames();
}

void Questions::end() {
    check(writer_.flush());
    ::close(std::exchange(descriptor_, -1));
}

std::optional<Batch> HybridDigest::next_frames() {
    try {
        return frames_in_time();
    } catch (const TsharkTimeout&) {
        std::ostringstream text;
        text << "tshark gave no answer for " << options_.answer_timeout.count() << " s; " << waiting_frames();
        throw TsharkTimeout(text.str());
    }
}

std::string HybridDigest::waiting_frames() const {
    if (last_sent_ == last_answered_) return "all frames are answered";
    return "it was sent frames " + std::to_string(last_answered_ + 1) + " to " + std::to_string(last_sent_);
}

std::optional<Batch> HybridDigest::frames_in_time() {
    if (ended_) return std::nullopt;
    while (!ledger_.full()) {
        if (!read_all_ && !must_wait()) {
            if (read_rows()) {
                book_answered();
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

bool HybridDigest::must_wait() const {
    return rows_.size() >= kMaxRows || unanswered_ >= kMaxUnanswered ||
           (unanswered_ > 0 && answers_.waiting_bytes() >= kMaxAnswerBytes);
}

// The next frames join the queue; false after the last.
bool HybridDigest::read_rows() {
    const std::size_t count = front_.next(read_, [this](std::size_t i) { keep(read_[i], frames_[i]); });
    for (std::size_t i = 0; i < count; ++i)
        if (read_[i].has(FrameRow::kOpenAbove)) selection_->prefetch(flow_number(read_[i]));
    for (std::size_t i = 0; i < count; ++i) {
        FrameRow& row = read_[i];
        if (choose(row, frames_[i])) {
            last_sent_ = row.frame;
            questions_.write(frames_[i].question);
            ++unanswered_;
        }
        rows_.push(row);
        if (row.frame % kFlushEvery == 0) questions_.flush();
    }
    return count > 0;
}

// Rows from the queue's start go to the ledger, up to the first without an answer.
void HybridDigest::book_answered() {
    constexpr std::size_t kAhead = 8;
    while (!ledger_.full() && book_first(false)) {
        const std::span<const FrameRow> next = rows_.first(kRows);
        for (const FrameRow& row : next) ledger_.accountant().prefetch_flow(row.key);
        for (std::size_t i = 0; i < next.size() && !ledger_.full(); ++i) {
            if (i + kAhead < next.size()) ledger_.accountant().prefetch_tcp(next[i + kAhead].key);
            if (!book_first(false)) return;
        }
    }
}

// The first row of the queue goes to the ledger; false where there is none, or its answer is not there yet.
bool HybridDigest::book_first(bool wait) {
    if (rows_.empty()) return false;
    FrameRow& row = rows_.front();
    if (row.has(FrameRow::kSent)) {
        const Answer* answer = wait ? &answers_.wait() : answers_.poll();
        if (answer == nullptr) return false;
        --unanswered_;
        last_answered_ = row.frame;
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
bool HybridDigest::choose(FrameRow& row, const Frame& frame) {
    if (options_.ask_all) row.bits = static_cast<std::uint8_t>(row.bits & ~FrameRow::kSure);
    bool send = !row.has(FrameRow::kSure);
    if (!send && row.has(FrameRow::kOpenAbove)) {
        const Choice choice = selection_->choose(flow_number(row), frame.payload, frame.payload_len);
        row.kind = choice.kind;
        send = choice.send;
    }
    if (send) row.bits |= FrameRow::kSent;
    return send;
}

// Of the frame that was read last.
void HybridDigest::keep(const FrameRow& row, Frame& frame) {
    const bool sure = row.has(FrameRow::kSure) && !options_.ask_all;
    if (sure && !row.has(FrameRow::kOpenAbove)) return;
    const Dissection& d = front_.dissection();
    frame.payload = d.payload;
    frame.payload_len = d.has_payload_len ? d.payload_len : static_cast<std::uint32_t>(d.payload.size());
    frame.question = front_.record();
    if (!row.has(FrameRow::kSure) && !options_.ask_all && d.vlan_count + d.label_count > 1)
        core_tags_.emplace_back(row.frame, d);
    if (!sure || d.bare_tokens == 0) return;
    frame.question.bytes = d.bare;
    frame.question.wire_len = d.bare_wire_len;
    frame.question.link_type = kLinkEthernet;
    frame.question.pseudo_header = {};
}

Verdict HybridDigest::verdict(FrameRow& row, const Answer& answer) {
    if (row.has(FrameRow::kSure)) return joined(row, answer);
    take_keys(answer, keys_);
    if (!core_tags_.empty() && core_tags_.front().frame == row.frame) {
        core_tags_.front().order(keys_);
        core_tags_.pop_front();
    }
    replace_keys(row, keys_);
    if (row.issue == Issue::unsupported_link_type && answer[Field::encap] != kUnknownEncap)
        row.issue = time_issue(row);
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
