// Engines hybrid and tshark. Selected frames are written to tshark as they are read; rows wait in a queue, in
// file order, and the first one leaves it once tshark has printed its frame or if that frame was not sent.
// Neither the selection nor the resulting rows depend on how fast tshark is.
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

// tshark closed its standard input. Its standard error contains the reason.
class TsharkInputError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

struct Options {
    bool send_all = false;  // engine tshark
    SelectionPolicy policy;
    const Vendors* vendors = nullptr;  // as in FrameReader
    input::DecompressionLimits limits;
    std::uint64_t memory_bytes = kUnlimited;  // as in DigestBuilder
    Seconds tshark_timeout = kTsharkTimeout;
    WhileWaiting while_waiting = nullptr;  // as in TsharkOutput
};

// The standard input of tshark, open until end().
class TsharkInput {
  public:
    // Takes ownership of the descriptor. `timeout`: maximum time until tshark reads something.
    // `while_waiting`: as in TsharkOutput.
    TsharkInput(int descriptor, Seconds timeout, WhileWaiting while_waiting = nullptr);
    TsharkInput(const TsharkInput&) = delete;
    TsharkInput& operator=(const TsharkInput&) = delete;
    ~TsharkInput();

    // These functions throw TsharkInputError and TsharkTimeout.
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
    // Takes ownership of `tshark_input`, the standard input of tshark, and of `tshark_output`, its standard
    // output, which must be line-buffered. Throws input::InputError.
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

    // As in NativeDigest. Throws TsharkInputError, TsharkOutputError, and TsharkTimeout with the numbers of
    // the pending frames.
    std::optional<Batch> next_frames();
    Batch flow_rows(std::uint32_t first, std::uint32_t count) const {
        return builder_.flow_rows(first, count);
    }

    const FrameReader& reader() const { return reader_; }
    const DigestBuilder& builder() const { return builder_; }
    std::uint64_t frames_sent() const { return tshark_input_.frames(); }
    // Number of frames for which the core was sure of layers 2 to 4, but tshark decoded them differently.
    std::uint64_t contradictions() const { return contradictions_; }

  private:
    // Rows read or added at a time, so that memory latencies overlap.
    static constexpr std::size_t kRows = 64;

    // Data of a frame, besides its row, that is needed to select and send the frame. Filled only for frames
    // that may be sent.
    struct Frame {
        Record sent_record;
        Bytes payload;
        std::uint32_t payload_len;
    };

    std::optional<Batch> next_batch();
    std::string pending_frames() const;
    bool read_rows();
    void keep_frame(const FrameRow& row, Frame& frame);
    bool select(FrameRow& row, const Frame& frame);
    bool must_wait() const;
    void add_printed_rows();
    bool add_first_row(bool wait);
    void end();
    StackDecision decide(FrameRow& row, const TsharkRow& tshark_row);
    StackDecision combine(const FrameRow& row, const TsharkRow& tshark_row);
    StackDecision carry_over(const FrameRow& row);

    // before tshark_input_, so that tshark's input is closed before this member is destroyed
    TsharkOutput tshark_output_;
    TsharkInput tshark_input_;
    FrameReader reader_;
    DigestBuilder builder_;
    Options options_;
    std::optional<Selection> selection_;  // freed after the last frame, like the next member
    std::optional<ApplicationCache> applications_;
    std::array<FrameRow, kRows> read_;
    std::array<Frame, kRows> frames_;
    RowQueue rows_;
    std::deque<CoreTags> core_tags_;  // of pending frames that have several tags
    std::uint64_t pending_ = 0;
    std::uint64_t last_sent_ = 0;  // frame number in the capture, like the next member
    std::uint64_t last_printed_ = 0;
    std::uint64_t contradictions_ = 0;
    Dissection keys_;
    bool read_all_ = false;
    bool ended_ = false;
};

}  // namespace acapella::hybrid
