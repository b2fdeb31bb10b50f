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

#include "digest/front_end.hpp"
#include "digest/ledger.hpp"
#include "hybrid/answers.hpp"
#include "hybrid/applications.hpp"
#include "hybrid/row_queue.hpp"
#include "hybrid/selection.hpp"
#include "input/pcapng_writer.hpp"

namespace acapella::hybrid {

// tshark stopped reading: the reason stands in its own standard error.
class AskingError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

struct Options {
    bool ask_all = false;  // engine tshark
    Policy policy;
    const Vendors* vendors = nullptr;  // as FrontEnd
    input::DecompressionLimits limits;
    std::uint64_t memory_bytes = kUnlimited;  // as Ledger
    Seconds answer_timeout = kAnswerTimeout;
    WhileWaiting while_waiting = nullptr;  // as AnswerReader
};

// tshark's standard input, open from here to the end of the questions.
class Questions {
  public:
    // Takes the descriptor over. `timeout`: how long tshark may take nothing; `while_waiting` as
    // AnswerReader.
    Questions(int descriptor, Seconds timeout, WhileWaiting while_waiting = nullptr);
    Questions(const Questions&) = delete;
    Questions& operator=(const Questions&) = delete;
    ~Questions();

    // These throw AskingError, TsharkTimeout.
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
    // Takes over `questions`, tshark's standard input; `answers`, its standard output, line-buffered, stays
    // the caller's. Raises input::InputError.
    HybridDigest(const std::string& path, Place place, std::size_t batch_rows, const Options& options,
                 int questions, int answers)
        : answers_(answers, options.ask_all ? Layout::kFields : Layout::kColumns, options.answer_timeout,
                   options.while_waiting),
          questions_(questions, options.answer_timeout, options.while_waiting),
          front_(path, options.vendors, options.limits),
          ledger_(front_.keys(), front_.names(), std::move(place), batch_rows, options.memory_bytes),
          options_(options),
          selection_(options.policy) {
        applications_.emplace(*selection_);
    }

    // As NativeDigest. Throws AskingError, AnswerError, and TsharkTimeout with the frames that wait.
    std::optional<Batch> next_frames();
    Batch flow_rows(std::uint32_t first, std::uint32_t count) const {
        return ledger_.flow_rows(first, count);
    }

    const FrontEnd& front() const { return front_; }
    const Ledger& ledger() const { return ledger_; }
    std::uint64_t frames_sent() const { return questions_.frames(); }
    // Frames where tshark's layers 2 to 4 are not those that the core is sure of.
    std::uint64_t contradictions() const { return contradictions_; }

  private:
    // Rows that are read, or booked, at a time, so that the waits for memory overlap.
    static constexpr std::size_t kRows = 64;

    // What of a frame its row does not tell, for choosing and asking; only of frames that may be sent.
    struct Frame {
        Record question;
        Bytes payload;
        std::uint32_t payload_len;
    };

    std::optional<Batch> frames_in_time();
    std::string waiting_frames() const;
    bool read_rows();
    void keep(const FrameRow& row, Frame& frame);
    bool choose(FrameRow& row, const Frame& frame);
    bool must_wait() const;
    void book_answered();
    bool book_first(bool wait);
    void end();
    Verdict verdict(FrameRow& row, const Answer& answer);
    Verdict joined(const FrameRow& row, const Answer& answer);
    Verdict carried(const FrameRow& row);

    AnswerReader answers_;  // before questions_: it ends after tshark's input is closed
    Questions questions_;
    FrontEnd front_;
    Ledger ledger_;
    Options options_;
    std::optional<Selection> selection_;  // until the last frame, as what follows
    std::optional<Applications> applications_;
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
