#include "hybrid/tshark_output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <utility>

#include "hybrid/field_lists.hpp"
#include "hybrid/tshark_columns.hpp"

namespace acapella::hybrid {
namespace {

constexpr int kOutputPipeBytes = 1 << 20;
constexpr std::size_t kMaxLineBytes = std::size_t{16} << 20;  // enough for the fields of a frame of 256 KiB
// Maximum amount of received output. tshark has to wait when it is reached.
constexpr std::size_t kMaxReceivedBytes = std::size_t{64} << 20;
constexpr std::size_t kChunk = std::size_t{256} << 10;
// tshark writes line by line. On one core, a wakeup for each line would take a fifth of its CPU time.
constexpr std::chrono::milliseconds kReadInterval{2};

}  // namespace

TsharkOutput::TsharkOutput(int descriptor, Layout layout, Seconds timeout, WhileWaiting while_waiting)
    : descriptor_(descriptor),
      layout_(layout),
      timeout_(timeout),
      while_waiting_(std::move(while_waiting)),
      stop_event_(::eventfd(0, EFD_CLOEXEC)) {
    ::fcntl(descriptor, F_SETPIPE_SZ, kOutputPipeBytes);  // affects only the speed
    receiver_ = std::thread([this] { receive(); });
}

TsharkOutput::~TsharkOutput() {
    const std::uint64_t increment = 1;
    (void)!::write(stop_event_, &increment, sizeof increment);
    {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
    }
    room_.notify_one();
    receiver_.join();
    ::close(stop_event_);
    ::close(descriptor_);
}

// Returns false if the receiver must stop. A child process of tshark may keep the pipe open.
bool TsharkOutput::wait_for_output() const {
    std::array<pollfd, 2> wanted{{{descriptor_, POLLIN, 0}, {stop_event_, POLLIN, 0}}};
    while (::poll(wanted.data(), wanted.size(), -1) < 0 && errno == EINTR) {
    }
    return wanted[1].revents == 0;
}

// Thread function of the receiver.
void TsharkOutput::receive() {
    std::vector<char> chunk(kChunk);
    while (wait_for_output()) {
        const ssize_t bytes_read = ::read(descriptor_, chunk.data(), chunk.size());
        if (bytes_read < 0 && errno == EINTR) continue;
        {
            const std::lock_guard lock(mutex_);
            if (bytes_read > 0) keep({chunk.data(), static_cast<std::size_t>(bytes_read)});
            ended_ = bytes_read <= 0 || too_long_;
            has_new_lines_.store(true, std::memory_order_relaxed);
        }
        changed_.notify_one();
        if (ended_ || !wait_for_room()) return;
        std::this_thread::sleep_for(kReadInterval);
    }
}

// Called with the lock held. Checks the length of the line here, because fetch() may not be called for a
// long time.
void TsharkOutput::keep(std::string_view output) {
    received_.insert(received_.end(), output.begin(), output.end());
    const std::size_t newline = output.rfind('\n');
    line_bytes_ =
        newline == std::string_view::npos ? line_bytes_ + output.size() : output.size() - newline - 1;
    too_long_ = line_bytes_ > kMaxLineBytes;
    received_bytes_.store(received_.size(), std::memory_order_relaxed);
}

// Returns false if the receiver must stop.
bool TsharkOutput::wait_for_room() {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] { return received_.size() < kMaxReceivedBytes || stopped_; });
    return !stopped_;
}

void TsharkOutput::wait_for_lines(std::unique_lock<std::mutex>& lock) {
    const auto start = std::chrono::steady_clock::now();
    const Seconds slice = std::min<Seconds>(timeout_, input::ByteSink::kSlice);
    while (!changed_.wait_for(lock, slice, [this] { return !received_.empty() || ended_; })) {
        if (std::chrono::steady_clock::now() - start >= timeout_)
            throw TsharkTimeout("tshark printed nothing after frame " + std::to_string(frames_));
        if (!while_waiting_) continue;
        lock.unlock();  // the receiver continues while Python's signal handlers run
        while_waiting_();
        lock.lock();
    }
}

bool TsharkOutput::fetch(bool wait) {
    if (!wait && !has_new_lines_.load(std::memory_order_relaxed)) return false;
    std::unique_lock lock(mutex_);
    if (wait) wait_for_lines(lock);
    if (too_long_)
        throw TsharkOutputError("tshark printed a line of more than " + std::to_string(kMaxLineBytes) +
                                " bytes");
    has_new_lines_.store(false, std::memory_order_relaxed);
    if (received_.empty()) return false;
    text_.erase(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_));
    at_ = 0;
    if (text_.empty()) {
        text_.swap(received_);
    } else {
        text_.insert(text_.end(), received_.begin(), received_.end());
    }
    received_.clear();
    received_bytes_.store(0, std::memory_order_relaxed);
    lock.unlock();
    room_.notify_one();
    return true;
}

bool TsharkOutput::next_line(std::string_view& line) {
    if (at_ == text_.size()) return false;
    const char* start = text_.data() + at_;
    const auto* newline = static_cast<const char*>(std::memchr(start, '\n', text_.size() - at_));
    if (newline == nullptr) return false;
    line = {start, static_cast<std::size_t>(newline - start)};
    at_ += line.size() + 1;
    return true;
}

const TsharkRow* TsharkOutput::poll() {
    std::string_view line;
    while (!next_line(line))
        if (!fetch(false)) return nullptr;
    return &parse(line);
}

const TsharkRow* TsharkOutput::next() {
    std::string_view line;
    while (!next_line(line))
        if (!fetch(true)) return nullptr;
    return &parse(line);
}

const TsharkRow& TsharkOutput::wait() {
    if (const TsharkRow* tshark_row = next()) return *tshark_row;
    throw TsharkOutputError("tshark exited without printing frame " + std::to_string(frames_ + 1) +
                            " of those sent to it");
}

void TsharkOutput::expect_end() {
    const std::uint64_t sent = frames_;
    if (next() != nullptr)
        throw TsharkOutputError("tshark printed more rows than the " + std::to_string(sent) +
                                " frames sent to it");
}

const TsharkRow& TsharkOutput::parse(std::string_view line) {
    ++frames_;
    if (layout_ == Layout::kColumns)
        split_columns(line, row_);
    else
        for (std::string_view& field : row_.fields) field = take(line, '\t');
    std::uint64_t number = 0;
    const std::string_view text = row_[Field::number];
    std::from_chars(text.data(), text.data() + text.size(), number);
    if (number != frames_)
        throw TsharkOutputError("tshark did not print frame " + std::to_string(frames_) +
                                " of those sent to it");
    return row_;
}

}  // namespace acapella::hybrid
