#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>

#include "hybrid/answers.hpp"

namespace acapella::hybrid {
namespace {

constexpr int kPipeBytes = 1 << 20;
constexpr std::size_t kChunk = std::size_t{256} << 10;
// tshark writes line by line; on one core, waking up for each would cost as much as a fifth of its work.
constexpr std::chrono::milliseconds kPause{2};

}  // namespace

AnswerReader::AnswerReader(int descriptor) : descriptor_(descriptor) {
    ::fcntl(descriptor, F_SETPIPE_SZ, kPipeBytes);  // only the pace depends on it
    receiver_ = std::thread([this] { receive(); });
}

AnswerReader::~AnswerReader() {
    receiver_.join();
    ::close(descriptor_);
}

// The receiver's whole life.
void AnswerReader::receive() {
    std::vector<char> chunk(kChunk);
    for (;;) {
        const ssize_t got = ::read(descriptor_, chunk.data(), chunk.size());
        if (got < 0 && errno == EINTR) continue;
        {
            const std::lock_guard lock(mutex_);
            if (got > 0) received_.insert(received_.end(), chunk.begin(), chunk.begin() + got);
            ended_ = got <= 0;
            news_.store(true, std::memory_order_relaxed);
        }
        changed_.notify_one();
        if (got <= 0) return;
        std::this_thread::sleep_for(kPause);
    }
}

bool AnswerReader::fetch(bool wait) {
    if (!wait && !news_.load(std::memory_order_relaxed)) return false;
    std::unique_lock lock(mutex_);
    if (wait) changed_.wait(lock, [this] { return !received_.empty() || ended_; });
    news_.store(false, std::memory_order_relaxed);
    if (received_.empty()) return false;
    text_.erase(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_));
    at_ = 0;
    if (text_.empty()) {
        text_.swap(received_);
    } else {
        text_.insert(text_.end(), received_.begin(), received_.end());
    }
    received_.clear();
    return true;
}

bool AnswerReader::next_line(std::string_view& line) {
    if (at_ == text_.size()) return false;
    const char* start = text_.data() + at_;
    const auto* newline = static_cast<const char*>(std::memchr(start, '\n', text_.size() - at_));
    if (newline == nullptr) return false;
    line = {start, static_cast<std::size_t>(newline - start)};
    at_ += line.size() + 1;
    return true;
}

const Answer* AnswerReader::poll() {
    std::string_view line;
    while (!next_line(line))
        if (!fetch(false)) return nullptr;
    return &parse(line);
}

const Answer* AnswerReader::next() {
    std::string_view line;
    while (!next_line(line))
        if (!fetch(true)) return nullptr;
    return &parse(line);
}

const Answer& AnswerReader::wait() {
    if (const Answer* answer = next()) return *answer;
    throw AnswerError("tshark ended without an answer for frame " + std::to_string(frames_ + 1) +
                      " of those it was sent");
}

void AnswerReader::expect_end() {
    const std::uint64_t sent = frames_;
    if (next() != nullptr)
        throw AnswerError("tshark gave more answers than the " + std::to_string(sent) +
                          " frames it was sent");
}

const Answer& AnswerReader::parse(std::string_view line) {
    ++frames_;
    for (std::string_view& field : answer_.fields) {
        const std::size_t tab = std::min(line.find('\t'), line.size());
        field = line.substr(0, tab);
        line.remove_prefix(std::min(tab + 1, line.size()));
    }
    std::uint64_t number = 0;
    const std::string_view text = answer_[Field::number];
    std::from_chars(text.data(), text.data() + text.size(), number);
    if (number != frames_)
        throw AnswerError("tshark gave no answer for frame " + std::to_string(frames_) +
                          " of those it was sent");
    return answer_;
}

}  // namespace acapella::hybrid
