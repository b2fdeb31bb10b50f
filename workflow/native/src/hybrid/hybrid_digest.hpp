// Engines hybrid and tshark: the frames that tshark shall see are written to it as they come, and the rows
// wait in file order until it has answered for the first of them. Neither what is sent nor what a row becomes
// depends on how soon an answer is there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "digest/digest_builder.hpp"
#include "digest/frame_reader.hpp"
#include "hybrid/application_cache.hpp"
#include "hybrid/row_queue.hpp"
#include "hybrid/selection.hpp"
#include "hybrid/tshark_output.hpp"
#include "input/pcapng_writer.hpp"

namespace acapella::hybrid {

// tshark stopped reading: the reason stands in its own standard error.
class TsharkInputError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

struct Options {
    bool send_all = false;  // engine tshark
    SelectionPolicy policy;
    const Vendors* vendors = nullptr;  // as FrameReader
    input::DecompressionLimits limits;
    std::uint64_t memory_bytes = kUnlimited;  // as DigestBuilder
    Seconds tshark_timeout = kTsharkTimeout;
    WhileWaiting while_waiting = nullptr;  // as TsharkOutput
};

// tshark's standard input, open from here to the end of the questions.
class TsharkInput {
  public:
    // Takes the descriptor over. `timeout`: how long tshark may take nothing; `while_waiting` as
    // TsharkOutput.
    TsharkInput(int descriptor, Seconds timeout, WhileWaiting while_waiting = nullptr);
    TsharkInput(const TsharkInput&) = delete;
    TsharkInput& operator=(const TsharkInput&) = delete;
    ~TsharkInput();

    // These throw TsharkInputError, TsharkTimeout.
    void write(const Record& record);
    void flush();
    void end();

    std::uint64_t frames() const { return writer_.frames(); }

  private:
    void check(bool written) const;

    int descriptor_;
    input::PcapngWriter writer_;
    std::uint64_t flushed_ = 0;
};

class HybridDigest {
  public:
    // Takes over `tshark_input`, tshark's standard input; `tshark_output`, its standard output,
    // line-buffered, stays the caller's. Raises input::InputError.
    HybridDigest(const std::string& path, CapturePoint capture_point, std::size_t batch_rows,
                 const Options& options, int tshark_input, int tshark_output)
        : tshark_output_(tshark_output, options.send_all ? Layout::kFields : Layout::kColumns,
                         options.tshark_timeout, options.while_waiting),
          tshark_input_(tshark_input, options.tshark_timeout, options.while_waiting),
          reader_(path, options.vendors, options.limits),
          builder_(reader_.keys(), reader_.header_stacks(), std::move(capture_point), batch_rows,
                   options.memory_bytes),
          options_(options),
          selection_(options.policy) {
        applications_.emplace(*selection_);
    }

    // As NativeDigest. Throws TsharkInputError, TsharkOutputError, and TsharkTimeout with the frames that
    // wait.
    std::optional<Batch> next_frames();
    Batch flow_rows(std::uint32_t first, std::uint32_t count) const {
        return builder_.flow_rows(first, count);
    }

    const FrameReader& reader() const { return reader_; }
    const DigestBuilder& builder() const { return builder_; }
    std::uint64_t frames_sent() const { return tshark_input_.frames(); }
    // Frames where tshark's layers 2 to 4 are not those that the core is sure of.
    std::uint64_t contradictions() const { return contradictions_; }

  private:
    // Rows that are read, or booked, at a time, so that the waits for memory overlap.
    static constexpr std::size_t kRows = 64;

    // What of a frame its row does not tell, for choosing and asking; only of frames that may be sent.
    struct Frame {
        Record sent_record;
        Bytes payload;
        std::uint32_t payload_len;
    };

    std::optional<Batch> frames_in_time();
    std::string pending_frames() const;
    bool read_rows();
    void keep_frame(const FrameRow& row, Frame& frame);
    bool select(FrameRow& row, const Frame& frame);
    bool must_wait() const;
    void add_answered_rows();
    bool add_first_row(bool wait);
    void end();
    StackDecision decision(FrameRow& row, const TsharkRow& tshark_row);
    StackDecision combine(const FrameRow& row, const TsharkRow& tshark_row);
    StackDecision carry_over(const FrameRow& row);

    TsharkOutput tshark_output_;  // before tshark_input_: it ends after tshark's input is closed
    TsharkInput tshark_input_;
    FrameReader reader_;
    DigestBuilder builder_;
    Options options_;
    std::optional<Selection> selection_;  // until the last frame, as what follows
    std::optional<ApplicationCache> applications_;
    std::array<FrameRow, kRows> read_;
    std::array<Frame, kRows> frames_;
    RowQueue rows_;
    std::deque<CoreTags> core_tags_;  // of frames that were sent, have several, and wait for their answer
    std::uint64_t unanswered_ = 0;
    std::uint64_t last_sent_ = 0;  // number in the capture, as the next
    std::uint64_t last_answered_ = 0;
    std::uint64_t contradictions_ = 0;
    Dissection keys_;
    bool read_all_ = false;
    bool ended_ = false;
};

}  // namespace acapella::hybrid
