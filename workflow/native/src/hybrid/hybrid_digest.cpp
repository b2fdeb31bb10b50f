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
constexpr std::uint32_t kFlowsWithoutKey = 1U << 10;  // flow numbers of frames without a key
constexpr int kInputPipeBytes = 1 << 20;
constexpr std::uint64_t kFlushEvery = 1U << 13;  // frames
constexpr std::size_t kMaxRows = 1U << 16;       // 4 MiB of queued rows
// Frames with hundreds of headers have long rows. tshark stops reading its input if too much of its output is
// pending (TsharkOutput); that limit is larger than this one plus the rows of the frames in tshark's input
// pipe.
constexpr std::size_t kMaxPendingBytes = std::size_t{16} << 20;
constexpr std::uint64_t kMaxPending = 1U << 14;  // frames sent and pending; about 3 MiB of output

// Returns the flow number for Selection. Frames without an IP header are grouped by their native stack, and
// several stacks may have the same number.
std::uint32_t flow_number(const FrameRow& row) {
    return row.key != kNone ? kFlowsWithoutKey + row.key : row.stack % kFlowsWithoutKey;
}

// Returns a colon-separated text without its first `count` tokens.
std::string_view without_tokens(std::string_view text, std::size_t count) {
    for (; count > 0; --count) text.remove_prefix(std::min(text.find(':'), text.size() - 1) + 1);
    return text;
}

// Returns the tokens above `native` in the protocols printed by tshark; none if they do not start with
// `native`.
std::optional<std::string_view> tokens_above(std::string_view protocols, std::string_view native) {
    if (!protocols.starts_with(native)) return std::nullopt;
    protocols.remove_prefix(native.size());
    if (protocols.empty()) return protocols;
    if (protocols.front() != ':') return std::nullopt;
    return protocols.substr(1);
}

}  // namespace

TsharkInput::TsharkInput(int descriptor, Seconds timeout, WhileWaiting while_waiting)
    : descriptor_(descriptor),
      writer_(descriptor, std::chrono::duration_cast<std::chrono::milliseconds>(timeout),
              std::move(while_waiting)) {
    ::fcntl(descriptor, F_SETPIPE_SZ, kInputPipeBytes);  // affects only the speed
    ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

TsharkInput::~TsharkInput() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

void TsharkInput::check(bool written) const {
    if (written) return;
    if (writer_.error_number() == ETIMEDOUT) throw TsharkTimeout("tshark stopped reading");
    throw TsharkInputError(writer_.error());
}

void TsharkInput::write(const Record& record) { check(writer_.write(record)); }

void TsharkInput::flush() {
    if (flushed_ == writer_.frames()) return;
    check(writer_.flush());
    flushed_ = writer_.frames();
}

void TsharkInput::end() {
    check(writer_.flush());
    ::close(std::exchange(descriptor_, -1));
}

std::optional<Batch> HybridDigest::next_frames() {
    try {
        return next_batch();
    } catch (const TsharkTimeout&) {
        std::ostringstream text;
        text << "tshark printed nothing for " << options_.tshark_timeout.count() << " s; "
             << pending_frames();
        throw TsharkTimeout(text.str());
    }
}

std::string HybridDigest::pending_frames() const {
    if (last_sent_ == last_printed_) return "all frames sent to it were printed";
    return "waiting for frames " + std::to_string(last_printed_ + 1) + " to " + std::to_string(last_sent_);
}

std::optional<Batch> HybridDigest::next_batch() {
    if (ended_) return std::nullopt;
    while (!builder_.full()) {
        if (!read_all_ && !must_wait()) {
            if (read_rows()) {
                add_printed_rows();
                continue;
            }
            read_all_ = true;
            tshark_input_.end();
        }
        if (rows_.empty()) {
            end();
            break;
        }
        tshark_input_.flush();
        add_first_row(true);
    }
    Batch batch = builder_.take_frames();
    if (ended_ && batch.columns.length == 0) return std::nullopt;
    return batch;
}

// Frees memory before the flow table is created.
void HybridDigest::end() {
    tshark_output_.expect_end();
    ended_ = true;
    applications_.reset();
    selection_.reset();
    rows_ = RowQueue();
    builder_.close_frames();
}

bool HybridDigest::must_wait() const {
    return rows_.size() >= kMaxRows || pending_ >= kMaxPending ||
           (pending_ > 0 && tshark_output_.pending_bytes() >= kMaxPendingBytes);
}

// Reads frames into the queue. Returns false after the last frame.
bool HybridDigest::read_rows() {
    const std::size_t count =
        reader_.next(read_, [this](std::size_t i) { keep_frame(read_[i], frames_[i]); });
    for (std::size_t i = 0; i < count; ++i)
        if (read_[i].has(FrameRow::kPayloadUndecoded)) selection_->prefetch(flow_number(read_[i]));
    for (std::size_t i = 0; i < count; ++i) {
        FrameRow& row = read_[i];
        if (select(row, frames_[i])) {
            last_sent_ = row.frame;
            tshark_input_.write(frames_[i].sent_record);
            ++pending_;
        }
        rows_.push(row);
        if (row.frame % kFlushEvery == 0) tshark_input_.flush();
    }
    return count > 0;
}

// Adds rows from the front of the queue to the digest, up to the first row that tshark has not printed yet.
void HybridDigest::add_printed_rows() {
    constexpr std::size_t kAhead = 8;
    while (!builder_.full() && add_first_row(false)) {
        const std::span<const FrameRow> next = rows_.first(kRows);
        for (const FrameRow& row : next) builder_.flow_table().prefetch_flow(row.key);
        for (std::size_t i = 0; i < next.size() && !builder_.full(); ++i) {
            if (i + kAhead < next.size()) builder_.flow_table().prefetch_tcp(next[i + kAhead].key);
            if (!add_first_row(false)) return;
        }
    }
}

// Adds the first row of the queue to the digest. Returns false if there is none or tshark has not printed it
// yet.
bool HybridDigest::add_first_row(bool wait) {
    if (rows_.empty()) return false;
    FrameRow& row = rows_.front();
    if (row.has(FrameRow::kSent)) {
        const TsharkRow* tshark_row = wait ? &tshark_output_.wait() : tshark_output_.poll();
        if (tshark_row == nullptr) return false;
        --pending_;
        last_printed_ = row.frame;
        const StackDecision decided = decide(row, *tshark_row);
        builder_.add(row, decided);
    } else {
        builder_.add(row, row.has(FrameRow::kPayloadUndecoded)
                              ? carry_over(row)
                              : StackDecision{row.stack, L4By::kNative, AppBy::kNative});
    }
    rows_.pop();
    return true;
}

// Returns true if the frame must be sent to tshark. Sets the row's payload kind if the core is sure of layers
// 2 to 4.
bool HybridDigest::select(FrameRow& row, const Frame& frame) {
    if (options_.send_all) row.bits = static_cast<std::uint8_t>(row.bits & ~FrameRow::kSure);
    bool send = !row.has(FrameRow::kSure);
    if (!send && row.has(FrameRow::kPayloadUndecoded)) {
        const Choice choice = selection_->select(flow_number(row), frame.payload, frame.payload_len);
        row.kind = choice.kind;
        send = choice.send;
    }
    if (send) row.bits |= FrameRow::kSent;
    return send;
}

// Stores the data that is needed from the frame read last.
void HybridDigest::keep_frame(const FrameRow& row, Frame& frame) {
    const bool sure = row.has(FrameRow::kSure) && !options_.send_all;
    if (sure && !row.has(FrameRow::kPayloadUndecoded)) return;
    const Dissection& d = reader_.dissection();
    frame.payload = d.payload;
    frame.payload_len = d.has_payload_len ? d.payload_len : static_cast<std::uint32_t>(d.payload.size());
    frame.sent_record = reader_.record();
    if (!row.has(FrameRow::kSure) && !options_.send_all && d.vlan_count + d.label_count > 1)
        core_tags_.emplace_back(row.frame, d);
    if (!sure || d.pseudowire_tokens == 0) return;
    frame.sent_record.bytes = d.pseudowire_frame;
    frame.sent_record.wire_len = d.pseudowire_frame_len;
    frame.sent_record.link_type = kLinkEthernet;
    frame.sent_record.pseudo_header = {};
}

StackDecision HybridDigest::decide(FrameRow& row, const TsharkRow& tshark_row) {
    if (row.has(FrameRow::kSure)) return combine(row, tshark_row);
    take_keys(tshark_row, keys_);
    if (!core_tags_.empty() && core_tags_.front().frame == row.frame) {
        core_tags_.front().order(keys_);
        core_tags_.pop_front();
    }
    replace_keys(row, keys_);
    if (row.issue == Issue::unsupported_link_type && tshark_row[Field::encap] != kUnknownEncap)
        row.issue = time_issue(row);
    row.key = reader_.keys().intern(keys_);
    return {reader_.header_stacks().intern(tshark_row.protocols(), stack_text(tshark_row)), L4By::kTshark,
            AppBy::kTshark};
}

// Combines the core's layers 2 to 4 with tshark's application.
StackDecision HybridDigest::combine(const FrameRow& row, const TsharkRow& tshark_row) {
    const std::string_view native =
        without_tokens(reader_.header_stacks().protocols_text(row.stack), row.pseudowire_tokens);
    const auto tokens = tokens_above(tshark_row.protocols(), native);
    if (!tokens) {
        ++contradictions_;
        return carry_over(row);
    }
    const std::uint32_t number = applications_->learn(row.kind, *tokens);
    return {applications_->stack(reader_.header_stacks(), row.stack, number), L4By::kNative, AppBy::kTshark};
}

StackDecision HybridDigest::carry_over(const FrameRow& row) {
    const std::uint32_t number = applications_->predict(row.kind);
    if (number == kNone) return {row.stack, L4By::kNative, AppBy::kUnidentified};
    return {applications_->stack(reader_.header_stacks(), row.stack, number), L4By::kNative, AppBy::kFlow};
}

}  // namespace acapella::hybrid
